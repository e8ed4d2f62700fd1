"""Somebody who follows the events, and which of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from manydesks.api.history import FIRST


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which events a follower asked for; None: all."""

    kinds: frozenset[str] | None = None
    agent: str | None = None
    trace: str | None = None

    @property
    def all(self) -> bool:
        return self.kinds is None and self.agent is None and self.trace is None

    def matches(self, kind: str, agent: str | None, trace: str | None) -> bool:
        return (
            (self.kinds is None or kind in self.kinds)
            and (self.agent is None or agent == self.agent)
            and (self.trace is None or trace == self.trace)
        )


@dataclass(eq=False)
class Follower:
    """Somebody who follows the events."""

    wanted: Wanted
    #: sent up to here
    cursor: int
    #: what runs are saying: told up to this stamp
    heard: int = 0
    #: a write to it is under way, which a client that does not read holds up
    sending: bool = False
    #: how many bytes of what it was sent its machine has not taken yet
    unsent: Callable[[], int] = field(default=lambda: 0)
    #: how many there were when it was last looked at, and since when
    left: int = -1
    since: float = 0.0
    #: whether its login still counts
    admitted: Callable[[], bool] = field(default=lambda: True)
    #: it does not, so this is over
    dismissed: bool = False
    #: the history that it follows
    history: str = FIRST
    #: ends its connection without another word
    cut: Callable[[], None] = field(default=lambda: None)
