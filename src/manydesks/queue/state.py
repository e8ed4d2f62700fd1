"""Where a job can be."""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """Below COMPLETED a job is live: it will be handed out, or has been."""

    #: in its place; it may still have to wait for those before it, or for the end of a back-off
    READY = 0
    #: somebody works on it
    CLAIMED = 1
    #: sent with a delay; it enters its lane when that is over
    DELAYED = 2
    COMPLETED = 3
    CANCELLED = 4
    DEAD = 5


def word(state: int) -> str:
    return JobState(state).name.lower()
