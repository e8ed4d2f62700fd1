"""Which days of topics have to be made anew: a day is held against the 28 before it, from the agent's first one on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from manydesks.pipeline.transforms.gold.topics import PAST


@dataclass(frozen=True, kw_only=True)
class Topics:
    """A plan; it reads and writes nothing."""

    #: every agent's days with messages
    days: Set[tuple[str, str]]
    #: days whose messages have changed
    touched: Set[str]

    @cached_property
    def first_days(self) -> dict[str, str]:
        """When each agent got its first message."""
        return {agent: days[0] for agent, days in self._by_agent.items()}

    @cached_property
    def wanted(self) -> set[str]:
        """The days that look back on a touched one, themselves included."""
        known = {day for _, day in self.days}
        found = {later for day in self.touched for later in _from(day, PAST)}
        for days in self._by_agent.values():
            # an agent that turns out to be older than it seemed has more days to be held against
            if days[0] in self.touched and len(days) > 1:
                found |= {day for day in known if days[0] <= day < _after(days[1], PAST)}
        return (found & known) | set(self.touched)

    @cached_property
    def needed(self) -> set[str]:
        """The days that are wanted, and those that they look back on."""
        return {before for day in self.wanted for before in _from(_after(day, -PAST), PAST)}

    @cached_property
    def _by_agent(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for agent, day in sorted(self.days):
            found[agent].append(day)
        return dict(found)


def _after(day: str, days: int) -> str:
    """One that no calendar here knows, from a clock that told nonsense, has no others around it."""
    try:
        return (date.fromisoformat(day) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        return day


def _from(day: str, days: int) -> list[str]:
    """The day and so many after it."""
    return [_after(day, number) for number in range(days + 1)]
