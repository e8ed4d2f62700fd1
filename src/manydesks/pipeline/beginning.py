"""Where a lake begins. Mostly with the first event of all; with a later one if it was begun after the store had let go
of those before it. The table of events has it in its log, with the mark of how far it reaches."""

from __future__ import annotations

from manydesks.domain.clock import Clock
from manydesks.pipeline.bronze import EVENTS
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place
from manydesks.pipeline.tables import Mark, advance, covered

#: the count in the log
BEGINS = "begins"


def begins(lake: Place) -> int:
    """The first event that the lake was ever to hold; 1: it lacks nothing."""
    return covered(lake, EVENTS, BEGINS) or 1


def begin(held: HeldLake, first: int, clock: Clock) -> None:
    """The lake, which has no events yet, is to have those from this one on."""
    advance(held, EVENTS, Mark(app=EVENTS.name, version=first - 1, also={BEGINS: first}), clock)
