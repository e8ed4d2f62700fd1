"""The stream of events: nothing missed, nothing repeated, and nobody held up by whoever does not read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from manydesks.client import AsyncClient, Client
from manydesks.client.stream import Lines
from manydesks.client.values import Event
from manydesks.domain.errors import LedgerPruned
from manydesks.settings.home import Home
from manydesks.settings.token import rotate_token
from manydesks.store.store import Store
from manydesks.testing.api import ServedOffice
from manydesks.testing.model import Pace, ScriptedModel, Turn


def events(response: httpx.Response) -> Iterator[Event]:
    lines = Lines()
    for line in response.iter_lines():
        if (event := lines.take(line)) is not None:
            yield event


def taken(response: httpx.Response, count: int) -> list[Event]:
    """The first so many that have a number."""
    found: list[Event] = []
    for event in events(response):
        if event.seq is not None:
            found.append(event)
            if len(found) == count:
                break
    return found


def head(api: httpx.Client) -> int:
    return int(api.get("/api/events", params={"limit": 1}).json()["head"])


def notes(api: httpx.Client, count: int) -> None:
    """So many pairs of changes, each with its events."""
    for _ in range(count):
        api.post("/api/pause", json={})
        api.post("/api/resume", json={})


def test_from_the_beginning_without_a_gap_and_as_the_list_has_it(api: httpx.Client) -> None:
    notes(api, 3)
    last = head(api)
    with api.stream("GET", "/api/events/stream", params={"after": 0}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = taken(response, last)
    assert [event.seq for event in found] == list(range(1, last + 1))
    listed = api.get("/api/events", params={"limit": 1000}).json()["events"][:last]
    assert [dict(event.data) for event in found] == listed
    assert [event.kind for event in found] == [event["kind"] for event in listed]


def test_it_resumes_behind_the_last_event_and_the_header_goes_before_the_address(api: httpx.Client) -> None:
    notes(api, 3)
    last = head(api)
    with api.stream(
        "GET", "/api/events/stream", params={"after": 0}, headers={"Last-Event-ID": str(last - 2)}
    ) as response:
        assert [event.seq for event in taken(response, 2)] == [last - 1, last]


def test_live_events_come_by_themselves(api: httpx.Client, served: ServedOffice) -> None:
    with served.caller() as other, other.stream("GET", "/api/events/stream") as response:
        lines = events(response)
        began = threading.Timer(0.1, lambda: notes(api, 1))
        began.start()
        first = next(event for event in lines if event.seq is not None)
        began.join()
    assert first.kind == "office_paused"


def test_filters(api: httpx.Client) -> None:
    sent = api.post("/api/message", json={"message": "!say filtered"}).json()
    api.get(f"/api/message/{sent['messageId']}", params={"wait": 20})
    with api.stream(
        "GET",
        "/api/events/stream",
        params={"after": 0, "trace": sent["traceId"], "types": "message_enqueued,message_completed"},
    ) as response:
        assert [event.kind for event in taken(response, 2)] == ["message_enqueued", "message_completed"]
    with api.stream("GET", "/api/events/stream", params={"after": 0, "agent": "assistant"}) as response:
        assert {event.data["agent"] for event in taken(response, 5)} == {"assistant"}
    assert api.get("/api/events/stream", params={"types": "no_such_kind"}).status_code == 400


def test_a_place_that_the_ledger_does_not_have(api: httpx.Client) -> None:
    refused = api.get("/api/events/stream", params={"after": 10**9})
    assert refused.status_code == 400
    assert "ends at event" in refused.json()["error"]
    assert api.get("/api/events/stream", headers={"Last-Event-ID": "abc"}).status_code == 400


def test_what_a_run_is_saying_has_no_id(home: Path) -> None:
    words = "one word after the other, " * 20
    with ScriptedModel([Turn(text=words, piece=26, pace=Pace(bytes=400, seconds=0.05))]) as model:
        office = ServedOffice(home)
        office.home.prepare()
        office.home.settings_file.write_text(f'[upstreams.lm]\nkind = "anthropic"\nbase_url = "{model.base_url}"\n')
        office.start()
        try:
            office.door.ask("agent_add", id="amy", provider="anthropic", model="scripted", options={"upstream": "lm"})
            seen: list[Event] = []
            with Client(office.url(), token=office.token()) as mine:
                sent = mine.send("hello", agent="amy")
                for event in mine.follow(after=0, live=True):
                    seen.append(event)
                    if event.kind == "message_completed":
                        break
        finally:
            office.kill()
    said = [event for event in seen if event.kind == "progress"]
    assert said
    assert all(event.seq is None for event in said)
    assert {event.data["messageId"] for event in said} == {sent.message_id}
    assert {event.data["traceId"] for event in said} == {sent.trace_id}
    assert all(words.startswith(event.data["text"].rstrip()) for event in said)
    numbers = [event.seq for event in seen if event.seq is not None]
    assert numbers == list(range(1, len(numbers) + 1))


def test_below_the_oldest_kept_event_it_is_gone(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    with office.caller() as api:
        notes(api, 5)
    office.stop()
    _forget_events(home, upto=4)
    office.start()
    with office.caller() as api:
        for params, headers in (({"after": 1}, {}), ({}, {"Last-Event-ID": "2"})):
            refused = api.get("/api/events/stream", params=params, headers=headers)
            assert (refused.status_code, refused.json()["firstSeq"]) == (410, 5)
        assert api.get("/api/events", params={"after": 0}).json()["firstSeq"] == 5
        with api.stream("GET", "/api/events/stream", params={"after": 4}) as response:
            assert taken(response, 1)[0].seq == 5


def _forget_events(home: Path, upto: int) -> None:
    """As retention does it, thirty days later."""
    db = apsw.Connection(str(home / "office.db"))
    with db:
        db.execute("delete from events where seq <= ?", (upto,))
        db.execute("insert or replace into marks (name, seq) values ('pruned', ?)", (upto,))
    db.close()


def test_one_that_never_reads_is_cut_and_nobody_else_notices(home: Path) -> None:
    """What waits for it is more than any kernel keeps for a connection."""
    Home(home).prepare()
    asyncio.run(_long_history(home, events=20_000, data={"reason": "x" * 1000}))
    office = ServedOffice(home)
    office.start()
    try:
        url = httpx.URL(office.url())
        with office.caller() as api, socket.socket() as deaf:

            def all_is_read() -> bool:
                with api.stream("GET", "/api/events/stream", params={"after": 0}) as response:
                    return [event.seq for event in taken(response, 20_000)] == list(range(1, 20_001))

            # what reading takes by itself, such as the store's cache of pages, is taken before
            assert all_is_read()
            _until(lambda: _readers(office) == 0)
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((url.host, url.port))
            deaf.sendall(_ask(office, "/api/events/stream?after=0"))
            _until(lambda: _readers(office) == 1)
            before = _resident(office.pid)
            _until(lambda: _readers(office) == 0)
            assert _resident(office.pid) - before < 4 << 20
            assert all_is_read()
    finally:
        office.kill()


async def _long_history(home: Path, *, events: int, data: dict[str, Any]) -> None:
    store = Store(home / "office.db", durability="crash")
    try:
        row = ("channel_down", None, None, None, None, None, None, json.dumps(data))
        await store.tell_past([(1_700_000_000_000 + number, None, row) for number in range(events)])
    finally:
        store.close()


def _resident(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def _ask(office: ServedOffice, path: str) -> bytes:
    host = httpx.URL(office.url()).netloc.decode()
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {office.token()}\r\n\r\n".encode()


def _readers(office: ServedOffice) -> int:
    host = office.door.host()
    assert host is not None
    return int(host["api"]["readers"])


def _until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_five_hundred_read_at_once(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served()
    url = httpx.URL(office.url())
    ask = _ask(office, "/api/events/stream")
    with contextlib.ExitStack() as all_of_them, office.caller() as api:
        lines = []
        for _ in range(500):
            line = all_of_them.enter_context(socket.create_connection((url.host, url.port)))
            line.sendall(ask)
            line.settimeout(20)
            lines.append(line)
        _until(lambda: _readers(office) == 500)
        first = head(api)
        notes(api, 5)
        last = head(api)
        for line in lines:
            text = b""
            while f"id: {last}\n".encode() not in text:
                text += line.recv(1 << 16)
            seen = [int(part.split(b"\n")[0]) for part in text.split(b"\nid: ")[1:]]
            assert [seq for seq in seen if seq > first] == list(range(first + 1, last + 1))
    _until(lambda: _readers(office) == 0)


def test_the_client_follows_over_a_restart(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served(port=_free_port())
    seen: list[Event] = []
    begun, done = threading.Event(), threading.Event()

    def follow() -> None:
        with Client(office.url(), token=office.token()) as mine:
            for event in mine.follow(after=0):
                begun.set()
                seen.append(event)
                if event.kind == "agent_added" and event.data["agent"] == "last":
                    break
        done.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert begun.wait(30)
    with office.caller() as api:
        notes(api, 3)
    office.kill()
    office.start()
    with office.caller() as api:
        notes(api, 3)
        api.put("/api/agents/last", json={"name": "Last", "provider": "rehearsal", "model": None})
    assert done.wait(30)
    thread.join()
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_the_client_for_coroutines_follows_too(served: ServedOffice, api: httpx.Client) -> None:
    notes(api, 1)
    last = head(api)
    async with AsyncClient(served.url(), token=served.token()) as mine:
        seen: list[Any] = []
        async for event in mine.follow(after=last - 2):
            seen.append(event.seq)
            if len(seen) == 2:
                break
    assert seen == [last - 1, last]


def test_events_are_json_on_one_line(api: httpx.Client) -> None:
    api.post("/api/message", json={"message": "two\nlines", "sender": "a\nb"})
    last = head(api)
    with api.stream("GET", "/api/events/stream", params={"after": last - 3}) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                json.loads(line[6:])
                break


def test_a_new_token_ends_what_was_opened_with_the_old_one(
    make_served: Callable[..., ServedOffice], home: Path
) -> None:
    office = make_served()
    with office.caller() as old, old.stream("GET", "/api/events/stream") as response:
        seen: list[Event] = []
        reading = threading.Thread(target=lambda: seen.extend(events(response)))
        reading.start()
        rotate_token(Home(home))
        with office.caller() as new:

            def over() -> bool:
                notes(new, 1)
                return not reading.is_alive()

            _until(over)
            assert old.get("/api/status").status_code == 401
            assert not seen or (seen[-1].seq or 0) < head(new)


def test_a_new_token_ends_a_quiet_stream_too(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    with office.caller() as old, old.stream("GET", "/api/events/stream") as response:
        reading = threading.Thread(target=lambda: list(events(response)))
        reading.start()
        rotate_token(Home(home))
        # a second is promised; without a word to send it would have been 15
        reading.join(5)
        assert not reading.is_alive()


def test_what_was_opened_without_a_login_ends_when_one_is_asked_for(
    make_served: Callable[..., ServedOffice], home: Path
) -> None:
    Home(home).prepare()
    Home(home).settings_file.write_text('[api]\nauth = "none"\n')
    office = make_served()
    with office.caller() as api, httpx.stream("GET", f"{office.url()}/api/events/stream", timeout=30) as response:
        assert response.status_code == 200
        reading = threading.Thread(target=lambda: list(events(response)))
        reading.start()
        assert api.put("/api/settings", json={"api": {"auth": "token"}}).status_code == 200
        reading.join(5)
        assert not reading.is_alive()
        assert httpx.get(f"{office.url()}/api/events/stream").status_code == 401


def test_whoever_says_its_history_is_told_that_it_is_another_one_now(
    make_served: Callable[..., ServedOffice], home: Path
) -> None:
    office = make_served()
    with office.caller() as api:
        notes(api, 5)
        with api.stream("GET", "/api/events/stream") as response:
            name = response.headers["X-Manydesks-History"]
        assert api.get("/api/events").headers["X-Manydesks-History"] == name == "0"
    office.stop()
    ends = asyncio.run(_put_back(home))
    office.start()
    with office.caller() as api:
        notes(api, 5)
        place = ends + 4
        for path in ("/api/events/stream", "/api/events"):
            refused = api.get(path, params={"after": place, "history": name})
            assert (refused.status_code, refused.json()["firstSeq"]) == (410, ends + 1)
            assert api.get(path, params={"after": place, "history": "?"}).status_code == 400
        refused = api.get("/api/events/stream", params={"history": name}, headers={"Last-Event-ID": str(10**6)})
        assert (refused.status_code, refused.json()["firstSeq"]) == (410, ends + 1)
        # who has not come so far has missed nothing, and whoever says nothing of its history is not asked
        for after, said in ((ends, {"history": name}), (place, {})):
            with api.stream("GET", "/api/events/stream", params={"after": after, **said}) as response:
                assert taken(response, 1)[0].seq == after + 1
                now = response.headers["X-Manydesks-History"]
        assert now == "abc"
        with api.stream("GET", "/api/events/stream", params={"after": place, "history": now}) as response:
            assert taken(response, 1)[0].seq == place + 1


def test_the_client_is_told_that_its_history_is_another_one_now(
    make_served: Callable[..., ServedOffice], home: Path, tmp_path: Path
) -> None:
    office = make_served(port=_free_port())
    office.stop()
    shutil.copy(home / "office.db", tmp_path / "backup.db")
    office.start()
    met: list[LedgerPruned] = []
    begun = threading.Event()

    def follow() -> None:
        with Client(office.url(), token=office.token()) as mine:
            try:
                for event in mine.follow(after=0):
                    if event.kind == "agent_added" and event.data["agent"] == "last":
                        begun.set()
            except LedgerPruned as refused:
                met.append(refused)

    thread = threading.Thread(target=follow)
    thread.start()
    with office.caller() as api:
        api.put("/api/agents/last", json={"name": "Last", "provider": "rehearsal", "model": None})
    assert begun.wait(30)
    office.stop()
    shutil.copy(tmp_path / "backup.db", home / "office.db")
    ends = asyncio.run(_put_back(home))
    office.start()
    thread.join(30)
    assert [refused.details["first"] for refused in met] == [ends + 1]


async def _put_back(home: Path) -> int:
    """As if all of it were a backup; the last event of that."""
    store = Store(home / "office.db")
    try:
        done = await store.restored(lineage=0xABC, made_at=1, made_by="0", desks={}, rule_of={}, lake=False)
    finally:
        store.close()
    return done.backup_seq


def test_half_a_body_at_closing_time_is_no_failure(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    url = httpx.URL(office.url())
    head = _ask(office, "/api/message").replace(b"GET", b"POST").rstrip()
    with socket.create_connection((url.host, url.port)) as line, office.caller() as api:
        line.sendall(head + b"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        assert api.get("/api/status").status_code == 200
        office.stop()
    written = "".join(path.read_text() for path in Home(home).logs.rglob("*") if path.is_file())
    assert "graceful shutdown exceeded" in written, "it was there"
    assert "Traceback" not in written
