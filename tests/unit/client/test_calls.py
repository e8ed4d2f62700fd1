"""What the client asks and understands, without an office."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx
import pytest

import manydesks.client
from manydesks.client import calls
from manydesks.client.tries import pauses
from manydesks.domain.errors import ApiRefused, BadInput, Duplicate, LedgerPruned, OfficeError

URL = "http://office"


def test_what_is_exported() -> None:
    assert manydesks.client.__all__ == ["AsyncClient", "Client", "Event", "Sent"]


def test_both_clients_have_the_same_verbs() -> None:
    verbs = [
        {name for name in vars(kind) if not name.startswith("_")}
        for kind in (manydesks.client.Client, manydesks.client.AsyncClient)
    ]
    known = {"send", "wait", "ask", "follow", "pending", "acknowledge", "dead", "retry", "drop", "status"}
    assert verbs[0] == verbs[1] >= known


def test_refusals_have_names() -> None:
    def answer(status: int, **body: object) -> httpx.Response:
        return httpx.Response(status, json=body)

    assert calls.value_of(URL, answer(200, ok=True)) == {"ok": True}
    with pytest.raises(Duplicate):
        calls.value_of(URL, answer(409, error="known.", messageId="m"))
    with pytest.raises(LedgerPruned) as pruned:
        calls.value_of(URL, answer(410, error="gone.", firstSeq=9))
    assert pruned.value.details["first"] == 9
    with pytest.raises(ApiRefused, match="not so") as refused:
        calls.value_of(URL, answer(409, error="not so."))
    assert refused.value.status == 409
    with pytest.raises(OfficeError, match=r"^What answers at http://office is no office: .* not JSON\.$"):
        calls.value_of(URL, httpx.Response(200, text="<html>"))
    with pytest.raises(ApiRefused, match="502"):
        calls.value_of(URL, httpx.Response(502, text="<html>"))


def test_every_message_has_an_id_before_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    call = calls.sending(
        "hi", agent=None, sender=None, sender_id=None, channel=None, message_id=None, priority=0, not_before=None,
        files=[tmp_path / "a.txt"],
    )  # fmt: skip
    assert call.body is not None
    assert str(call.body["messageId"]).startswith("api_")
    assert call.body["files"] == [{"name": "a.txt", "content": "d29yZHM="}]


def test_a_message_whose_receipt_was_lost_is_shown_with_all_who_got_it() -> None:
    def span(id: str, parent: str | None, kind: str = "message") -> dict[str, object]:
        return {"kind": kind, "parent": parent, "messageId": id, "agent": f"of-{id}", "status": "pending", "start": 1}

    trace = {"traceId": "t", "spans": [span("a", None), span("a", "a", "run"), span("b", None), span("c", "a")]}
    sent = calls.sent_before("a", trace)
    assert (sent.message_id, sent.trace_id) == ("a", "t")
    assert sent.messages == (
        {"messageId": "a", "agent": "of-a", "status": "pending"},
        {"messageId": "b", "agent": "of-b", "status": "pending"},
    )
    assert calls.ids_of(trace) == ["a", "b", "c"]


def test_ids_cannot_leave_their_place_in_the_address() -> None:
    assert calls.drop("../../x?y").path == "/api/queue/dead/..%2F..%2Fx%3Fy"


def test_a_file_is_named_by_its_path_where_the_office_can_look(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "a.txt"
    home.mkdir()
    here.write_text("words")
    (home / "own.txt").write_text("own")
    (tmp_path / "link.txt").symlink_to(home / "own.txt")

    def files(*paths: str | Path, home: Path | None = home) -> object:
        call = calls.sending(
            "hi", agent=None, sender=None, sender_id=None, channel=None, message_id=None, priority=0, not_before=None,
            files=paths, home=home,
        )  # fmt: skip
        assert call.body is not None
        return call.body["files"]

    assert files(here, str(here)) == [str(here), str(here)]
    assert files(here, home=None) == [{"name": "a.txt", "content": "d29yZHM="}]
    # the office takes nothing of its own folder by a path, and sees another /proc
    assert files(home / "own.txt", tmp_path / "link.txt") == [
        {"name": "own.txt", "content": "b3du"},
        {"name": "link.txt", "content": "b3du"},
    ]
    assert files("/proc/self/comm") == [
        {"name": "comm", "content": base64.b64encode(Path("/proc/self/comm").read_bytes()).decode()}
    ]
    with pytest.raises(FileNotFoundError):
        files(tmp_path / "none")


def test_what_was_not_answered_is_an_error() -> None:
    with pytest.raises(OfficeError, match=r"is dead: no\.$"):
        calls.check_answered({"messageId": "m", "status": "dead", "lastError": "no.", "responses": []})


def test_an_answer_to_several_messages_is_there_once() -> None:
    one, both = {"id": 1, "message": "one"}, {"id": 2, "message": "both"}
    assert calls.answers_of([{"responses": [one, both]}, {"responses": [both]}]) == [one, both]


@pytest.mark.parametrize("types", [[], (), "message_dead"])
def test_the_kinds_to_follow_are_a_list_of_some(types: list[str]) -> None:
    with pytest.raises(BadInput, match="`types` is a list of one or more kinds"):
        calls.following(types, None, None)
    assert calls.following(["a", "b"], None, None).params == {"types": "a,b"}
    assert calls.following(None, None, None).params == {}


def test_tries() -> None:
    assert list(pauses(1)) == [None]
    assert list(pauses(3)) == [0.05, 0.1, None]
