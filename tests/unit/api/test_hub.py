"""The hub over a real store: the ring, behind it, filters, and rest while nobody follows."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manydesks.api.follower import Follower, Wanted
from manydesks.api.hub import Hub
from manydesks.api.progress import LIVE_SECONDS
from manydesks.api.readers import Readers
from manydesks.domain.errors import LedgerPruned
from manydesks.office.surface import Live
from manydesks.settings.home import Home
from manydesks.store.store import Store


class Place:
    def __init__(self, home: Home, ring: int) -> None:
        self.readers = Readers(home)
        self.hub = Hub(self.readers, ring=ring)
        self.store = Store(home.office_db, durability="crash", committed=self._committed)
        self._loop = asyncio.get_running_loop()

    def _committed(self) -> None:
        self._loop.call_soon_threadsafe(self.hub.news)

    async def note(self, count: int) -> None:
        for number in range(count):
            await self.store.note("channel_down", channel="x", reason=str(number), agent="amy" if number % 2 else "ben")

    async def fill(self, count: int, size: int) -> None:
        """So many events of that size, all at once."""
        row = ("channel_down", None, None, None, None, None, None, json.dumps({"reason": "x" * size}))
        await self.store.tell_past([(1_700_000_000_000 + number, None, row) for number in range(count)])

    async def read(self, follower: Follower, upto: int) -> list[int]:
        """The numbers of what it is sent, until it has got there."""
        seen: list[int] = []
        async with asyncio.timeout(20):
            while follower.cursor < upto:
                turn = self.hub.next_turn
                data = self.hub.chunk(follower)
                if data is None:
                    data = await self.hub.page(follower)
                seen += [int(line[4:]) for line in data.decode().splitlines() if line.startswith("id: ")]
                if not data and follower.cursor < upto and follower.cursor >= self.hub.head:
                    await turn.wait()
        return seen


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    home = Home(tmp_path)
    home.prepare()
    made = Place(home, ring=100)
    made.hub.start()
    yield made
    await made.hub.stop()
    made.readers.close()
    made.store.close()


async def test_what_is_in_the_ring_and_what_is_behind_it(place: Place) -> None:
    await place.note(250)
    behind = Follower(Wanted(), 0)
    await place.hub.join(behind)
    await place.note(120)
    assert await place.read(behind, 370) == list(range(1, 371))
    inside = Follower(Wanted(), 300)
    await place.hub.join(inside)
    assert place.hub.chunk(inside) is not None
    too_far = Follower(Wanted(), 200)
    await place.hub.join(too_far)
    assert place.hub.chunk(too_far) is None


async def test_filters_move_the_cursor_over_what_nobody_wants(place: Place) -> None:
    await place.note(50)
    follower = Follower(Wanted(agent="amy"), 0)
    await place.hub.join(follower)
    await place.note(50)
    seen = await place.read(follower, 100)
    assert seen == [seq for seq in range(1, 101) if seq % 2 == 0]
    none = Follower(Wanted(kinds=frozenset({"agent_added"})), 0)
    await place.hub.join(none)
    assert await place.read(none, 100) == []


async def test_nothing_is_read_while_nobody_follows(place: Place) -> None:
    await place.note(5)
    assert place.hub.head == 0
    follower = Follower(Wanted(), 5)
    await place.hub.join(follower)
    assert place.hub.head == 5
    place.hub.leave(follower)
    await place.note(5)
    assert place.hub.head == 5
    again = Follower(Wanted(), 3)
    await place.hub.join(again)
    assert await place.read(again, 10) == list(range(4, 11))


async def test_whoever_waits_for_a_message_is_told(place: Place) -> None:
    async with place.hub.about("m1") as told:
        await place.store.note("message_completed", message="other", attempt=1)
        await place.store.note("message_completed", message="m1", attempt=1)
        async with asyncio.timeout(20):
            await told.wait()
    assert not place.hub._waiting


async def test_a_page_that_was_pruned_says_so(place: Place) -> None:
    await place.note(20)
    await place.store._do(lambda tx: tx.run("delete from events where seq <= 10"))
    await place.store._do(lambda tx: tx.run("insert or replace into marks (name, seq) values ('pruned', 10)"))
    with pytest.raises(LedgerPruned):
        await place.hub.page(Follower(Wanted(), 3))


async def test_what_runs_say_is_told_once_and_to_those_who_want_it(place: Place) -> None:
    all_of_it, of_ben = Follower(Wanted(), 0), Follower(Wanted(agent="ben"), 0)
    for follower in (all_of_it, of_ben):
        await place.hub.join(follower)
    live = Live(agent="amy", session="s1", run="r1", message="m1", trace="t1", text="so far")
    place.hub.live(live)
    data = place.hub.heard(all_of_it)
    assert b"event: progress" in data
    assert b"so far" in data
    assert b"id:" not in data
    assert place.hub.heard(all_of_it) == b""
    assert place.hub.heard(of_ben) == b""
    await place.store.note("tool_called", run="r1", session="s1", agent="amy", tool="look", call="1", digest="")
    async with asyncio.timeout(20):
        while b'"tool":"look"' not in (data := place.hub.heard(all_of_it)):
            await place.hub.next_turn.wait()
    assert b"so far" in data


async def test_a_tool_that_is_called_before_a_word_is_said_is_told(place: Place) -> None:
    follower = Follower(Wanted(), 0)
    await place.hub.join(follower)
    about = {"run": "r1", "session": "s1", "agent": "amy", "message": "m1", "trace": "t1"}
    await place.store.note("tool_called", **about, tool="look", call="1", digest="")
    async with asyncio.timeout(20):
        while not (data := place.hub.heard(follower)):
            await place.hub.next_turn.wait()
    (line,) = (line for line in data.decode().splitlines() if line.startswith("data: "))
    said = json.loads(line.removeprefix("data: "))
    assert (said["tool"], said["text"], said["runId"], said["traceId"]) == ("look", "", "r1", "t1")
    await place.store.note("tool_done", **about, tool="look", call="1", duration_ms=1, ok=True)
    async with asyncio.timeout(20):
        while not (data := place.hub.heard(follower)):
            await place.hub.next_turn.wait()
    assert b'"tool":null' in data


async def test_one_that_takes_nothing_and_is_far_behind_is_cut(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.api.hub.STUCK_SECONDS", 0.0)
    place.hub._most_unsent = 1000
    cut: list[str] = []
    left = 5_000
    stuck = Follower(Wanted(), 0, cut=lambda: cut.append("stuck"), unsent=lambda: 5_000)
    slow = Follower(Wanted(), 0, cut=lambda: cut.append("slow"), unsent=lambda: left)
    quick = Follower(Wanted(), 0, cut=lambda: cut.append("quick"))
    for follower in (stuck, slow, quick):
        await place.hub.join(follower)
    stuck.sending = slow.sending = True
    await place.note(30)
    await place.read(Follower(Wanted(), 0), 30)
    place.hub._cut_stuck()
    assert cut == [], "nobody is judged by one look"
    for _ in range(3):
        left -= 100
        place.hub._cut_stuck()
    assert cut == ["stuck"] * 3


async def test_whoever_catches_up_keeps_nobody_else_waiting(place: Place) -> None:
    over = threading.Event()
    behind = [asyncio.create_task(place.readers.read_behind(lambda _: over.wait())) for _ in range(20)]
    try:
        async with asyncio.timeout(20):
            assert await place.readers.read(lambda reader: reader.head()) == 0
        assert not any(task.done() for task in behind)
    finally:
        over.set()
    await asyncio.gather(*behind)


@pytest.mark.parametrize("places", [50, 400])
async def test_readers_that_come_back_at_many_places_cost_no_more_than_one(place: Place, places: int) -> None:
    """As after an outage; one who was there all the time keeps the hub awake."""
    place.hub._size, place.hub._ring, place.hub._offsets = 2000, [None] * 2000, [0] * 2000
    stays = Follower(Wanted(), 0)
    await place.hub.join(stays)
    await place.fill(1500, 1000)
    await place.read(stays, 1500)
    most = 0
    tracemalloc.start()
    try:
        back = [Follower(Wanted(), after) for after in range(places)]
        for follower in back:
            await place.hub.join(follower)
        for follower in back:
            while place.hub.chunk(follower):
                most = max(most, tracemalloc.get_traced_memory()[0])
        for follower in back:
            place.hub.leave(follower)
        assert most < 6 << 20
        assert place.hub._chunks.size == 0, "nobody wants what is in it"
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


async def test_what_many_are_sent_is_joined_once(place: Place) -> None:
    stays = Follower(Wanted(), 0)
    await place.hub.join(stays)
    await place.fill(100, 4000)
    await place.read(stays, 100)
    together = [Follower(Wanted(), 3) for _ in range(50)]
    assert len({id(place.hub.chunk(follower)) for follower in together}) == 1
    elsewhere = [Follower(Wanted(), 3), *(Follower(Wanted(), after) for after in (0, 5, 9))]
    first = [place.hub.chunk(follower) for follower in elsewhere]
    assert len(set(first)) == 4
    while elsewhere[0].cursor < 100:
        assert len({id(place.hub.chunk(follower)) for follower in elsewhere}) == 1, "they are sent the same from here"
    assert {follower.cursor for follower in elsewhere} == {100}


async def test_what_everybody_was_sent_is_let_go_also_while_they_stay(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manydesks.api.hub.LOOK_SECONDS", 0.01)
    stay = [Follower(Wanted(), 0) for _ in range(2)]
    for follower in stay:
        await place.hub.join(follower)
    await place.fill(50, 4000)
    await place.read(stay[0], 50)
    assert place.hub._chunks.size > 0, "the other one will want it"
    await place.read(stay[1], 50)
    async with asyncio.timeout(20):
        while place.hub._chunks.size:  # noqa: ASYNC110 - nobody is told of it
            await asyncio.sleep(0.01)


async def test_the_last_words_are_told_though_none_follow_them(place: Place) -> None:
    follower = Follower(Wanted(), 0)
    await place.hub.join(follower)
    loop = asyncio.get_running_loop()
    about = {"agent": "amy", "session": "s1", "run": "r1", "message": "m", "trace": "t"}
    place.hub.live(Live(**about, text="one"))
    assert b'"one"' in place.hub.heard(follower)
    for text in ("one two", "one two three"):
        turn = place.hub.next_turn
        place.hub.live(Live(**about, text=text))
    assert not turn.is_set(), "not more often than is good"
    later = place.hub._progress._later
    assert later is not None
    assert later.when() - loop.time() <= LIVE_SECONDS
    async with asyncio.timeout(20):
        await turn.wait()
    assert b'"one two three"' in place.hub.heard(follower)
    place.hub.live(Live(**about, text="nobody is there to be told"))
    place.hub.leave(follower)
    assert place.hub._progress._later is None
