"""What a job tells of itself while it works, and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

#: told at the start of a step and after every commit, by the thread that does the work: the step, what is done of it,
#: and how much there is
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One table's part of a run."""

    #: the table
    name: str
    #: rows looked at: of the ledger, of bronze, of silver
    taken: int
    #: rows written
    rows: int
    #: how long it took
    seconds: float


class Rows(NamedTuple):
    """What Spark has done for a step so far."""

    #: rows read from files: more than the step takes if it reads some twice, fewer if Spark knows that it needs not all
    read: int
    #: the same, and those that were moved and then taken up again
    passed: int


#: told at the end of a step
Ended = Callable[[Step], None]


def unheard(step: Step) -> None:
    """For a job that nobody listens to."""
