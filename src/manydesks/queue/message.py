"""What a queue hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One job, claimed: whoever has it may work on it until its lease is over."""

    id: int
    #: what was sent
    body: Any
    #: from 1
    attempt: int
    #: whose right it is; a verb with a fence that is over changes nothing and says False
    fence: int
    #: the lane that stands still until this one has ended
    lane: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job as it stands in the file."""

    id: int
    queue: str
    #: ready, claimed, delayed, completed, cancelled or dead
    status: str
    body: Any
    key: str | None
    lane: str | None
    priority: int
    #: attempts that have failed
    attempts: int
    #: why the last one did
    reason: str | None
    #: milliseconds UTC; None: now
    not_before: int | None
    #: milliseconds UTC
    sent_at: int
    #: milliseconds UTC
    changed_at: int
