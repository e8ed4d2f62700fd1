"""What the client asks and understands, without an office."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import manydesks.client
from manydesks.client import calls
from manydesks.client.calls import Lines
from manydesks.client.place import place_of
from manydesks.client.tries import pauses
from manydesks.domain.errors import ApiRefused, Duplicate, LedgerPruned, OfficeError
from manydesks.settings.home import Home
from manydesks.settings.token import token_of


def test_what_is_exported() -> None:
    assert manydesks.client.__all__ == ["AsyncClient", "Client", "Event", "Sent"]


def test_both_clients_have_the_same_verbs() -> None:
    verbs = [
        {name for name in vars(kind) if not name.startswith("_")}
        for kind in (manydesks.client.Client, manydesks.client.AsyncClient)
    ]
    assert verbs[0] == verbs[1] >= {"send", "wait", "ask", "follow", "dead", "retry", "drop", "status"}


def test_events_of_a_stream() -> None:
    lines = Lines()
    text = (
        'retry: 1000\n\n: keep-alive\n\nid: 7\nevent: a\ndata: {"x": 1}\n\nevent: progress\ndata: {"y":\ndata: 2}\n\n'
    )
    found = [event for line in text.split("\n") if (event := lines.take(line)) is not None]
    assert [(event.seq, event.kind, dict(event.data)) for event in found] == [
        (7, "a", {"x": 1}),
        (None, "progress", {"y": 2}),
    ]


def test_refusals_have_names() -> None:
    def answer(status: int, **body: object) -> httpx.Response:
        return httpx.Response(status, json=body)

    assert calls.value_of(answer(200, ok=True)) == {"ok": True}
    with pytest.raises(Duplicate):
        calls.value_of(answer(409, error="known.", messageId="m"))
    with pytest.raises(LedgerPruned) as pruned:
        calls.value_of(answer(410, error="gone.", firstSeq=9))
    assert pruned.value.details["first"] == 9
    with pytest.raises(ApiRefused, match="not so") as refused:
        calls.value_of(answer(409, error="not so."))
    assert refused.value.status == 409
    with pytest.raises(ApiRefused, match="502"):
        calls.value_of(httpx.Response(502, text="<html>"))


def test_every_message_has_an_id_before_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    call = calls.sending(
        "hi", agent=None, sender=None, sender_id=None, channel=None, message_id=None, priority=0, not_before=None,
        files=[tmp_path / "a.txt"],
    )  # fmt: skip
    assert call.body is not None
    assert str(call.body["messageId"]).startswith("api_")
    assert call.body["files"] == [{"name": "a.txt", "content": "d29yZHM="}]


def test_ids_cannot_leave_their_place_in_the_address() -> None:
    assert calls.drop("../../x?y").path == "/api/queue/dead/..%2F..%2Fx%3Fy"


def test_what_was_not_answered_is_an_error() -> None:
    with pytest.raises(OfficeError, match="is dead: no"):
        calls.text_of({"messageId": "m", "status": "dead", "lastError": "no", "responses": []})


def test_the_office_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    with pytest.raises(OfficeError, match="no token"):
        place_of(None, None, tmp_path)
    token = token_of(home)
    monkeypatch.setenv("MANYDESKS_PORT", "4000")
    assert place_of(None, None, tmp_path).url == "http://127.0.0.1:4000"
    assert place_of(None, None, tmp_path).token == token
    assert token not in repr(place_of(None, None, tmp_path))
    (tmp_path / "settings.toml").write_text('[api]\nhost = "::"\n')
    assert place_of(None, None, tmp_path).url == "http://[::1]:4000"


def test_tries() -> None:
    assert list(pauses(1)) == [None]
    assert list(pauses(3)) == [0.05, 0.1, None]
