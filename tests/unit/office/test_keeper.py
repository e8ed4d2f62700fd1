"""The keeper: rounds at their time, small steps, and no trouble that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import StoreFull
from manydesks.office import keeper as module
from manydesks.office.host import Host
from manydesks.office.keeper import DAY_MS, ROUND_MS, Keeper, prune
from manydesks.settings.home import Home
from manydesks.settings.model import PipelineSettings, RetentionSettings, Settings
from manydesks.store.database import open_reader
from manydesks.store.reader import Reader
from manydesks.store.retention import Pruned, Reach
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

RULES = RetentionSettings(days=1, require_archive=False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    """A store with a day-old history of more than a step."""
    store = Store(tmp_path / "office.db", durability="crash", clock=clock)
    await store.add_agent(id="ada", provider="rehearsal")
    for n in range(10):
        incoming = Incoming(source="api", key=f"api_{n}", text="hi", channel="console", platform_id="x")
        await store.accept(incoming, default_agent="ada", message_bytes=100)
    for n in range(800):
        await store.note("processor_start", version=str(n))
    clock.advance(DAY_MS + 1)
    await store.note("processor_start", version="new")
    yield store
    store.close()


async def test_the_first_round_waits_until_the_clock_can_be_believed(store: Store, clock: ManualClock) -> None:
    keeper = Keeper(store, RULES, clock)
    assert await keeper.look() is None
    clock.advance(ROUND_MS - 1)
    assert await keeper.look() is None
    clock.advance(1)
    done = await keeper.look()
    assert done is not None
    assert done.events > 800
    assert await keeper.look() is None
    clock.advance(ROUND_MS)
    again = await keeper.look()
    assert again is not None
    assert again.events == 0


async def test_a_store_that_refuses_costs_a_round(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk is full at the second step."""
    keeper = Keeper(store, RULES, clock)
    real, calls = store.prune, 0

    async def full(**rules: object) -> Pruned:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreFull(path=store.path)
        return await real(**rules)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "prune", full)
    clock.advance(ROUND_MS)
    assert await keeper.look() is None
    assert "disk" in caplog.text
    clock.advance(ROUND_MS)
    done = await keeper.look()
    assert done is not None
    assert done.events > 0


async def test_as_many_steps_as_one_may(store: Store) -> None:
    first = await prune(store, RULES, lake=lambda: None, steps=1)
    assert first.more
    rest = await prune(store, RULES, lake=lambda: None)
    assert not rest.more
    assert first.events + rest.events > 800


def lake(events: int, texts: int = 2**62) -> Reach:
    return Reach(events=events, texts=texts)


async def test_what_is_marked_goes_only_as_far_as_the_lake_is_there(store: Store) -> None:
    rules = RetentionSettings(days=1, require_archive=True)
    await store.mark_archived(500)
    gone = await prune(store, rules, lake=lambda: lake(0))
    assert (gone.events, gone.archived, gone.waits_for_archive) == (0, 0, True)
    half = await prune(store, rules, lake=lambda: lake(300))
    assert (half.events, half.waits_for_archive) == (300, True)
    # of one on other machines the mark is believed, and none is believed beyond it
    assert (await prune(store, rules, lake=lambda: None)).events == 200
    assert (await prune(store, rules, lake=lambda: lake(700))).events == 0


async def test_no_event_goes_whose_text_the_lake_has_not(store: Store) -> None:
    rules = RetentionSettings(days=1, require_archive=True)
    await store.mark_archived(500)
    with closing(open_reader(store.path)) as db:
        named = db.execute("select seq, body from events where body is not null order by seq").fetchall()
    gone = await prune(store, rules, lake=lambda: lake(500, texts=0))
    assert (gone.first, gone.archived, gone.bodies, gone.waits_for_archive) == (named[0][0], named[0][0] - 1, 0, True)
    some = next(number for number, (_, body) in enumerate(named) if body > 3)
    gone = await prune(store, rules, lake=lambda: lake(500, texts=3))
    assert (gone.first, gone.waits_for_archive) == (named[some][0], True)


async def test_a_fault_of_ours_is_said(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    keeper = Keeper(store, RULES, clock)

    async def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(keeper, "look", broken)
    keeper.start()
    assert keeper._task is not None
    await asyncio.wait({keeper._task})
    await asyncio.sleep(0)
    assert "The keeper has failed" in caplog.text
    await keeper.stop()


async def test_the_office_keeps_by_itself(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real host: days pass, and the ledger begins later, without anybody asking."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    home = Home(tmp_path / "home")
    home.prepare()
    opened = asyncio.Event()
    settings = Settings(retention=RULES, pipeline=PipelineSettings(auto="off"))
    host = Host(home, settings, clock, announce=lambda _: opened.set())
    office = asyncio.create_task(host.run())
    await opened.wait()
    reader = Reader(home.office_db, sockets=tmp_path)
    try:
        assert reader.first() == 1
        clock.advance(2 * DAY_MS)
        async with asyncio.timeout(30):
            while reader.first() == 1:
                await asyncio.to_thread(reader.wait, 1.0)
        assert reader.first() == reader.head() - 1  # the newest, and the one that tells of it
    finally:
        reader.close()
        host._told.set()
        await office
