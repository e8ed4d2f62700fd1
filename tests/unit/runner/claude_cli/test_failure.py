from __future__ import annotations

from typing import Any

import pytest

from manydesks.runner.providers.claude_cli.failure import MAX_REASON, Retry, of_end, of_result, retry_of


def result(text: str | None = "why", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": True, "result": text, **more}


def test_an_answer_is_no_failure() -> None:
    assert of_result(result("fine", is_error=False), None) is None


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, "permanent"),
        (401, "permanent"),
        (403, "permanent"),
        (404, "permanent"),
        (408, "transient"),
        (413, "permanent"),
        (429, "transient"),
        (500, "transient"),
        (503, "transient"),
        (529, "transient"),
    ],
)
def test_by_the_status(status: int, failure: str) -> None:
    verdict = of_result(result(api_error_status=status), None)
    assert verdict is not None
    assert verdict.failure == failure
    assert f"({status})" in verdict.reason or f" {status}:" in verdict.reason


def test_a_model_server_that_was_not_reached_has_not_answered() -> None:
    words = "API Error: 502 The upstream 'anthropic' cannot be reached: Connection refused."
    verdict = of_result(result(words, api_error_status=502), None)
    assert verdict is not None
    assert (verdict.failure, verdict.reason) == ("transient", f"the model could not be reached: {words}")


def test_the_end_of_a_budget_is_a_refusal() -> None:
    verdict = of_result(result("Today's budget is spent.", api_error_status=402), None)
    assert verdict is not None
    assert (verdict.failure, verdict.reason) == ("refused", "the office may not spend now: Today's budget is spent.")


@pytest.mark.parametrize(
    ("line", "failure", "words"),
    [
        (result("Not logged in · Please run /login"), "permanent", "office's key"),
        (result("Connection lost", terminal_reason="api_error"), "transient", "could not be reached"),
        (result("Prompt is too long"), "permanent", "cannot take it"),
        (result(None, subtype="error_max_turns"), "permanent", "gave up"),
        (result(None, subtype="error_during_execution", errors=["boom", 7]), "transient", "boom"),
        (result(None, subtype="error_of_a_new_kind", is_error=False), "transient", "no reason"),
        (result(None, subtype=None), "transient", "no reason"),
    ],
)
def test_by_the_words(line: dict[str, Any], failure: str, words: str) -> None:
    verdict = of_result(line, None)
    assert verdict is not None
    assert verdict.failure == failure
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(status=429, attempt=1, delay=7.0), 7.0),
        (Retry(status=429, attempt=1, delay=0.6), None),  # the program's own pause
        (Retry(status=429, attempt=3, delay=2.5), None),
        (Retry(status=429, attempt=3, delay=3.0), 3.0),
        (Retry(status=529, attempt=1, delay=7.0), None),  # of another error
        (None, None),
    ],
)
def test_a_pause_counts_if_the_service_asked_for_it(retry: Retry | None, expected: float | None) -> None:
    verdict = of_result(result(api_error_status=429), retry)
    assert verdict is not None
    assert verdict.retry_after == expected


def test_a_retry_is_read_whatever_is_in_it() -> None:
    line = {"type": "system", "subtype": "api_retry", "attempt": 2, "retry_delay_ms": 1500, "error_status": 529}
    assert retry_of(line) == Retry(status=529, attempt=2, delay=1.5)
    odd = {**line, "attempt": "x", "retry_delay_ms": None, "error_status": None}
    assert retry_of(odd) == Retry(status=None, attempt=1, delay=0.0)
    assert retry_of({**line, "subtype": "init"}) is None


@pytest.mark.parametrize(
    ("code", "tail", "error", "failure", "words"),
    [
        (-9, "", None, "transient", "by signal 9, and said nothing"),
        (0, "", "it was 529", "transient", "with exit code 0: it was 529"),
        (1, "oops", "before", "transient", "before; oops"),
        (1, "error: unknown option '--replay-user-messages'", None, "permanent", "--replay-user-messages: update it"),
        (1, "x cannot be used with root/sudo privileges y", None, "permanent", "as root"),
        (1, "Invalid API key", None, "permanent", "no way to a model"),
    ],
)
def test_an_end_before_the_result(code: int, tail: str, error: str | None, failure: str, words: str) -> None:
    verdict = of_end(code, tail, error)
    assert verdict.failure == failure
    assert words in verdict.reason


def test_reasons_are_short_and_hold_no_key() -> None:
    verdict = of_result(result("token=abcdef123 " + "x" * 10_000, api_error_status=500), None)
    assert verdict is not None
    assert "abcdef123" not in verdict.reason
    assert len(verdict.reason) == MAX_REASON
