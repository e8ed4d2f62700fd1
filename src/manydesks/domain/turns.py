"""Whose turn it is when there are fewer desks than agents with work.

A desk that comes free goes to the agent that has the fewest already; between agents that have as many, to the one whose
last turn is longest ago. So whoever has work and may begin is overtaken by each of the others once at most, however
much they have waiting and however urgent it is. Urgency decides between agents that had no turn yet, and, in the store,
between the lanes of one agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(kw_only=True, slots=True)
class Able:
    """An agent that has work and may begin."""

    agent: str
    provider: str
    #: runs at one time
    concurrency: int
    #: runs under way
    running: int


class Turns:
    """Remembers who had a turn. Not kept anywhere: after a start all are equal again."""

    def __init__(self) -> None:
        self._turn = 0
        self._last: dict[str, int] = {}

    def next(self, able: Sequence[Able]) -> Able:
        """Who is next; of equals the first. `able` is not empty."""
        return min(able, key=lambda one: (one.running, self._last.get(one.agent, 0)))

    def took(self, agent: str) -> None:
        """It has begun a run."""
        self._turn += 1
        self._last[agent] = self._turn
