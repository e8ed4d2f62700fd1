"""A made-up history is the same for the same seed, is a ledger like any other, and never gets among real events."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from manydesks.domain.errors import BadInput
from manydesks.domain.event import KINDS
from manydesks.settings.home import Home
from manydesks.store.store import Store
from manydesks.testing.history import DAY_MS, Shape, history
from manydesks.testing.simulate import simulate

SHAPE = Shape(events=3_000, agents=5, days=6, seed=7)


def test_the_same_seed_tells_the_same() -> None:
    assert list(history(SHAPE)) == list(history(SHAPE))
    assert list(history(SHAPE)) != list(history(Shape(events=3_000, agents=5, days=6, seed=8)))


def test_time_goes_forward_and_the_days_are_used() -> None:
    events = list(history(SHAPE))
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert abs(len(events) - SHAPE.events) < 0.2 * SHAPE.events
    days = {(event.at - SHAPE.begins) // DAY_MS for event in events}
    assert set(range(6)) <= days


@pytest.mark.parametrize(
    ("events", "agents", "days"), [(3_000, 1, 1), (3_000, 1, 7), (100, 2, 1), (20_000, 8, 30), (2_000, 3, 3650)]
)
def test_there_are_about_as_many_as_asked_for(events: int, agents: int, days: int) -> None:
    for seed in range(3):
        made = len(list(history(Shape(events=events, agents=agents, days=days, seed=seed))))
        assert abs(made - events) < 0.02 * events + 150, seed  # to within one long trace


def test_there_is_always_a_trace() -> None:
    assert any(event.trace for event in history(Shape(events=100, agents=99, days=1)))


def test_a_join_waits_for_the_run_that_ends_last() -> None:
    events = list(history(SHAPE))
    freed = [event for event in events if event.kind == "message_released"]
    assert freed
    for event in freed:
        done = {one.run: one.at for one in events if one.trace == event.trace and one.kind == "chain_step_done"}
        assert done[event.run] == event.at


def test_every_event_is_of_the_ledgers_vocabulary() -> None:
    found = {event.kind for event in history(SHAPE)}
    assert {"message_retried", "message_dead", "chain_handoff", "message_released", "response_retried"} <= found
    for event in history(SHAPE):
        assert event.data.keys() <= KINDS[event.kind].fields, event.kind


def test_a_fresh_home_gets_it_as_a_ledger_without_a_gap(home: Path) -> None:
    place = Home(home)
    heard: list[int] = []
    made = simulate(place, SHAPE, heard.append)
    db = apsw.Connection(str(place.office_db), flags=apsw.SQLITE_OPEN_READONLY)
    ((first, last, rows),) = db.execute("select min(seq), max(seq), count(*) from export_events").fetchall()
    assert (first, last, rows) == (1, made, made)
    assert heard[-1] == made
    texts = db.execute("select e.data, b.text from events e join bodies b on b.id = e.body limit 5").fetchall()
    assert all(json.loads(data) and text for data, text in texts)
    assert len(db.execute("select id from agents").fetchall()) == SHAPE.agents
    db.close()
    # retention goes by the slower of two clocks: the store's own must not be left behind in the past
    with closing(Store(place.office_db)) as store:
        assert asyncio.run(store.prune(keep_ms=4 * DAY_MS, require_archive=False)).events > 0
    with pytest.raises(BadInput, match="never used"):
        simulate(place, SHAPE)


def test_half_of_it_is_no_office_and_the_next_one_begins_anew(home: Path) -> None:
    place = Home(home)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(place, SHAPE, stop)
    assert not place.office_db.exists()
    assert not list(place.run.glob("*.db*"))
    for left in ("simulated.db", "simulated.db-wal", "simulated.db-shm"):  # by one that was killed
        (place.run / left).write_bytes(b"half of it")
    made = simulate(place, SHAPE)
    assert made > 2_000
    assert not list(place.run.glob("*.db*"))
    with closing(Store(place.office_db)) as store:
        assert asyncio.run(store.head()) == made
