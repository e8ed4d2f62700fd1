"""What a job tells of itself while it works, and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: told at the start of a step and after every commit: the step, what is done of it, and how much there is
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


#: told at the end of a step
Ended = Callable[[Step], None]


def unheard(step: Step) -> None:
    """For a job that nobody listens to."""
