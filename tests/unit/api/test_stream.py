"""The stream over a real hub and store: it tells its place, says something now and then, and ends with its login."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from manydesks.api import stream as module
from manydesks.api.hub import Hub, Wanted
from manydesks.api.readers import Readers
from manydesks.api.rendering import rendered
from manydesks.api.stream import Stream, begin
from manydesks.settings.home import Home
from manydesks.store.store import Store


class Office:
    def __init__(self, home: Home) -> None:
        self.readers = Readers(home)
        self.hub = Hub(self.readers)
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
        self._more = asyncio.Event()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
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
    made.hub.start()
    yield made
    await made.hub.stop()
    made.readers.close()
    made.store.close()


@contextlib.asynccontextmanager
async def reading(office: Office, reader: Reader, **wanted: Any) -> AsyncIterator[asyncio.Task[None]]:
    follower = await begin(office.hub, last=None, after=None, wanted=Wanted(**wanted))
    task = asyncio.create_task(Stream(office.hub, follower)(reader.scope, reader.receive, reader.send))
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


async def test_a_login_that_counts_no_more_ends_it(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADMITTED_SECONDS", 0.0)
    admitted = True
    reader = Reader(**{"manydesks.admitted": lambda: admitted})
    async with reading(office, reader) as task:
        await office.note()
        await reader.until(b"event: channel_down")
        before, admitted = reader.got, False
        await office.note()
        async with asyncio.timeout(20):
            await task
    assert reader.over
    assert reader.got == before


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\r", "\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_nothing_inside_an_event_ends_its_line(sign: str) -> None:
    event = dict.fromkeys(("trace", "parent", "message", "run", "session", "agent"))
    made = rendered({**event, "seq": 7, "kind": "channel_down", "at": 1, "data": {"channel": f"a{sign}b é"}})
    lines = made.data.decode().splitlines()
    assert lines[:2] == ["id: 7", "event: channel_down"]
    assert len(lines) == 4
    assert "é" in lines[2]
