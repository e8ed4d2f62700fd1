"""Fills the store of a fresh home with a made-up history: what the pipeline is tried and measured on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import BadInput
from manydesks.office.lock import write_lock
from manydesks.settings.home import Home
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock
from manydesks.testing.history import Made, Shape, agents_of, history

#: events per transaction
BATCH = 20_000
#: in the home's `run`, until all of it is there: half of a history would be taken for an office
UNFINISHED = "simulated.db"
#: what the store writes itself when the agents are added
_OWN = frozenset({"agent_added"})


def simulate(home: Home, shape: Shape, told: Callable[[int], None] = lambda done: None) -> int:
    """How many events the ledger has afterwards; `told` hears after each batch how many there are.

    Raises `BadInput` for a home that was used before: made-up events must not get among real ones.
    """
    _require_unused(home)
    home.prepare()
    with write_lock(home):
        _require_unused(home)  # still: another may have been at it
        # the wall clock is that of the history; the store's steady time goes on as the machine's own
        machine = SystemClock()
        clock = ManualClock(now=shape.begins, monotonic=machine.since_boot() - (machine.now() - shape.begins))
        unfinished = home.run / UNFINISHED
        _remove(unfinished)  # of one that was killed
        try:
            # a store that is lost is made up again: no power cut has to be survived
            with closing(Store(unfinished, durability="crash", clock=clock)) as store:
                made = asyncio.run(_write(store, shape, told))
            unfinished.rename(home.office_db)
        finally:
            _remove(unfinished)
        return made


def _require_unused(home: Home) -> None:
    if home.office_db.exists():
        raise BadInput(f"{home.path} is an office already; a history is made up only in a home that was never used.")


def _remove(store: Path) -> None:
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()


async def _write(store: Store, shape: Shape, told: Callable[[int], None]) -> int:
    for agent in agents_of(shape):
        await store.add_agent(id=agent, provider="rehearsal")
    for batch in _batches(event for event in history(shape) if event.kind not in _OWN):
        await store.tell_past([(event.at, event.text, event.told()) for event in batch])
        told(await store.head())
    return await store.head()


def _batches(events: Iterable[Made]) -> Iterator[list[Made]]:
    rest: Iterator[Any] = iter(events)
    while batch := list(islice(rest, BATCH)):
        yield batch
