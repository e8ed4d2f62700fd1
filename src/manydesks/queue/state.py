"""Where a job can be."""

from __future__ import annotations

from enum import IntEnum

from manydesks.domain.errors import BadInput


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


def state_of(status: str | None) -> int | None:
    """None stands for all of them."""
    names = {word(state): int(state) for state in JobState}
    if status is not None and status not in tuple(names):
        raise BadInput(f"A status is one of {', '.join(names)}, not {status!r:.60}.")
    return None if status is None else names[status]
