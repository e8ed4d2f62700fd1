"""The stream over a real hub and store: it tells its place, says something now and then, and ends with its login."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from manydesks.api import stream as module
from manydesks.api.follower import Follower, Wanted
from manydesks.api.hub import Hub
from manydesks.api.readers import Readers
from manydesks.api.rendering import rendered
from manydesks.api.stream import Stream, begin
from manydesks.settings.home import Home
from manydesks.store.store import Store


class Office:
    def __init__(self, home: Home) -> None:
        self.readers = Readers(home)
        #: what logins depend on
        self.door = "token"
        self.hub = Hub(self.readers, door=lambda: self.door)
        self._loop = asyncio.get_running_loop()
        self.store = Store(home.office_db, durability="crash", committed=self._committed)

    def _committed(self) -> None:
        self._loop.call_soon_threadsafe(self.hub.news)

    async def note(self, kind: str = "channel_down") -> None:
        await self.store.note(kind, channel="x", reason="why")


class Reader:
    """Somebody who reads a stream, without a network between."""

    def __init__(self, **scope: Any) -> None:
        self.scope = scope
        self.got = b""
        self.over = False
        self.headers: dict[bytes, bytes] = {}
        self._more = asyncio.Event()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.headers = dict(message["headers"])
        else:
            self.got += message["body"]
            self.over = not message["more_body"]
            self._more.set()

    async def receive(self) -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(20):
            while text not in self.got:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    home = Home(tmp_path)
    home.prepare()
    made = Office(home)
    made.door = "none"
    made.hub.start()
    yield made
    await made.hub.stop()
    made.readers.close()
    made.store.close()


@contextlib.asynccontextmanager
async def reading(office: Office, reader: Reader, **wanted: Any) -> AsyncIterator[asyncio.Task[None]]:
    follower = await begin(office.hub, last=None, after=None, wanted=Wanted(**wanted))
    made = Stream(office.hub, follower, everybody=lambda: office.door == "none")
    task = asyncio.create_task(made(reader.scope, reader.receive, reader.send))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_first_words_say_where_it_begins(office: Office) -> None:
    await office.note()
    reader = Reader()
    async with reading(office, reader):
        await reader.until(b"\n\n")
    assert reader.got == b"retry: 1000\nid: 1\n\n", "a browser that loses it before the first event resumes from here"


async def test_one_that_is_sent_nothing_hears_how_far_it_is(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_SECONDS", 0.2)
    reader = Reader()
    async with reading(office, reader, kinds=frozenset({"message_dead"})):
        async with asyncio.timeout(20):
            # it is woken far more often than it would be by itself
            while b"keep-alive" not in reader.got:
                await office.note()
                await asyncio.sleep(0.02)
        await office.note()
        head = await office.readers.read(lambda store: store.head())
        await reader.until(f": keep-alive\nid: {head}\n\n".encode())
    assert b"event:" not in reader.got


async def test_a_login_that_counts_no_more_ends_it_also_if_there_is_nothing_to_send(office: Office) -> None:
    office.door, right = "first", "first"
    old = Reader(**{"manydesks.admitted": lambda: right == "first"})
    new = Reader(**{"manydesks.admitted": lambda: right == "second"})
    async with reading(office, old) as task:
        await office.note()
        await old.until(b"event: channel_down")
        before = old.got
        right, office.door = "second", "second"
        async with asyncio.timeout(5):  # far less than until it is woken to say that it is alive
            await task
        assert (old.over, old.got) == (True, before)
        async with reading(office, new) as other:
            await office.note()
            await new.until(b"event: channel_down")
            assert not other.done()


async def test_whoever_was_asked_for_no_login_goes_when_one_is_asked_for(office: Office) -> None:
    nobody = Reader()
    async with reading(office, nobody) as task:
        await nobody.until(b"\n\n")
        office.door = "token"
        async with asyncio.timeout(5):
            await task
    assert nobody.over


async def test_a_login_that_ended_before_the_first_word_is_noticed(office: Office) -> None:
    await office.hub.join(Follower(Wanted(), 0))  # the door was looked at by then, and changes no more
    office.door = "token"
    office.hub._look_at_door()
    late = Reader(**{"manydesks.admitted": lambda: False})
    async with reading(office, late) as task, asyncio.timeout(5):
        await task
    assert late.over


async def test_one_that_takes_nothing_is_ended_too(office: Office) -> None:
    class Deaf(Reader):
        async def send(self, message: MutableMapping[str, Any]) -> None:
            await super().send(message)
            if b"event:" in message.get("body", b""):
                await asyncio.Event().wait()

    deaf = Deaf()
    async with reading(office, deaf) as task:
        await office.note()
        await deaf.until(b"event: channel_down")
        office.door = "token"
        async with asyncio.timeout(5):
            await task
    assert not office.hub.followers


async def test_nothing_is_kept_of_what_a_reader_was_sent(office: Office) -> None:
    sent: list[bytes] = []

    class Keeps(Reader):
        async def send(self, message: MutableMapping[str, Any]) -> None:
            if b"event:" in message.get("body", b""):
                sent.append(message["body"])
                message = {**message, "body": b"sent"}
            await super().send(message)

    reader = Keeps()
    async with reading(office, reader, kinds=frozenset({"channel_down"})):
        await reader.until(b"\n\n")
        # two at once: a single one is sent as the hub itself keeps it
        row = ("channel_down", None, None, None, None, None, None, "{}")
        await office.store.tell_past([(1, None, row), (2, None, row)])
        office.hub.news()
        await reader.until(b"sent")
        for _ in range(5):
            await asyncio.sleep(0)  # until it waits for more
        (body,) = sent
        kept_by = sys.getrefcount(body)
        assert kept_by == 3, "this name, the list, and the argument of the call"


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\r", "\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_nothing_inside_an_event_ends_its_line(sign: str) -> None:
    event = dict.fromkeys(("trace", "parent", "message", "run", "session", "agent"))
    made = rendered({**event, "seq": 7, "kind": "channel_down", "at": 1, "data": {"channel": f"a{sign}b é"}})
    lines = made.data.decode().splitlines()
    assert lines[:2] == ["id: 7", "event: channel_down"]
    assert len(lines) == 4
    assert "é" in lines[2]
