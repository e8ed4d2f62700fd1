from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.runner.providers.base import Usage
from manydesks.runner.providers.http_api.ending import note_of
from manydesks.runner.providers.http_api.failure import CallFailed, from_answer, from_event, retry_after
from manydesks.runner.providers.http_api.talk import Words
from manydesks.runner.providers.http_api.wire import Reply, Stop

NOW = 1_800_000_000_000


def answered(status: int, body: str = "", **headers: str) -> CallFailed:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return from_answer(status, named, body, now_ms=NOW)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (301, "permanent"), (400, "permanent"), (401, "permanent"), (402, "refused"), (403, "permanent"),
        (404, "permanent"), (408, "transient"), (409, "transient"), (413, "permanent"), (422, "permanent"),
        (429, "transient"), (500, "transient"), (502, "transient"), (503, "transient"), (504, "transient"),
        (529, "transient"),
    ],
)  # fmt: skip
def test_statuses(status: int, failure: str) -> None:
    failed = answered(status)
    assert failed.failure == failure
    assert str(status) in failed.reason


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"type":"error","error":{"type":"x","message":"of Anthropic"}}', "of Anthropic"),
        ('{"error":{"message":"of OpenAI","type":"x","code":null}}', "of OpenAI"),
        ('{"error":"of llama.cpp"}', "of llama.cpp"),
        ('{"message":"of Mistral"}', "of Mistral"),
        ('{"detail":"of FastAPI"}', "of FastAPI"),
        ("plain   words\n\nof a gateway", "plain words of a gateway"),
        ("<html>a page</html>", "it gave no reason"),
        ("", "it gave no reason"),
        ("[" * 100_000, "[[["),
    ],
)
def test_the_api_s_words_are_repeated(body: str, words: str) -> None:
    failed = answered(400, body)
    assert words in failed.reason
    assert len(failed.reason) < 2_000


def test_a_key_is_said_to_be_set_and_never_repeated() -> None:
    failed = answered(401, '{"error":{"message":"Incorrect API key provided: sk-proj-abcdefgh12345678"}}')
    assert "secrets.toml" in failed.reason
    assert "abcdefgh" not in failed.reason


def test_an_account_without_credit_is_not_tried_again() -> None:
    body = '{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}'
    assert answered(429, body).failure == "permanent"


def test_the_office_s_own_refusal_is_its_sentence() -> None:
    body = '{"error":{"message":"Today\'s budget is spent.","code":"over_budget"}}'
    assert answered(402, body, manydesks_refusal="over_budget").reason == "Today's budget is spent."


@pytest.mark.parametrize(("status", "failure"), [(403, "permanent"), (429, "transient"), (502, "transient")])
def test_what_the_office_s_proxy_says_is_not_said_of_the_model_server(status: int, failure: str) -> None:
    """Nobody answered: it cannot be reached, say."""
    body = '{"type": "error", "error": {"type": "api_error", "message": "The upstream \'lab\' cannot be reached."}}'
    failed = answered(status, body, manydesks_refusal="unreachable", retry_after="7")
    assert (failed.failure, failed.reason) == (failure, "The upstream 'lab' cannot be reached.")
    assert failed.retry_after == (7 if failure == "transient" else None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00"}, 60.0),
        ({"retry-after": "Fri, 15 Jan 2016 08:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now_ms=NOW) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_a_number_that_can_be_waited_for_or_none(value: str) -> None:
    seconds = retry_after({"retry-after": value}, now_ms=NOW)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "transient"),
        ({"type": "error", "error": {"type": "rate_limit_error"}}, "transient"),
        ({"type": "error", "error": {"type": "invalid_request_error"}}, "permanent"),
        ({"type": "error", "error": {"type": "authentication_error"}}, "permanent"),
        ({"type": "error", "error": {"type": "billing_error"}}, "refused"),
        ({"error": {"code": "rate_limit_exceeded"}}, "transient"),
        ({"error": {"code": "insufficient_quota"}}, "permanent"),
        ({"error": {"code": 429}}, "transient"),
        ({"error": {"code": 400}}, "permanent"),
        ({"type": "error", "code": "server_error", "message": "m"}, "transient"),
        ({"error": {"code": "never_heard_of"}}, "transient"),
        ({"error": "words"}, "transient"),
        (None, "transient"),
    ],
)
def test_errors_within_a_stream(error: Any, failure: str) -> None:
    assert from_event(error).failure == failure


@pytest.mark.parametrize(
    ("status", "words", "too_long"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum", True),
        (413, "the request exceeds the context window", True),
        (400, "temperature must be below 2", False),
        (500, "prompt is too long", False),
    ],
)
def test_a_prompt_that_is_too_long_is_known(status: int, words: str, too_long: bool) -> None:
    assert answered(status, words).too_long is too_long


def reply(stop: Stop, words: str = "", *, output: int | None = None, refusal: str = "") -> Reply:
    parts = (Words(text=words),) if words else ()
    return Reply(parts=parts, stop=stop, usage=Usage(input=1, output=output), refusal=refusal)


def test_ends_that_are_answers() -> None:
    assert note_of(reply("end", "Yes."), max_tokens=None) == ""
    assert note_of(reply("end", output=1), max_tokens=None) == ""
    assert "max_tokens = 9" in note_of(reply("length", "Ye"), max_tokens=9)
    assert "API's limit" in note_of(reply("length", "Ye"), max_tokens=None)
    assert "context" in note_of(reply("window", "Ye"), max_tokens=9)


@pytest.mark.parametrize(
    ("given", "failure", "words"),
    [
        (reply("end"), "transient", "empty"),
        (reply("end", " \n", output=0), "transient", "empty"),
        (reply("length"), "permanent", "max_tokens = 9"),
        (reply("window"), "permanent", "context"),
        (reply("refusal", "No."), "refused", "declined to answer: No."),
        (reply("refusal", "So far", refusal="I must not."), "refused", "declined to answer: I must not."),
        (reply("refusal"), "refused", "declined to answer"),
    ],
)
def test_ends_that_are_none(given: Reply, failure: str, words: str) -> None:
    with pytest.raises(CallFailed) as failed:
        note_of(given, max_tokens=9)
    assert failed.value.failure == failure
    assert words in failed.value.reason
