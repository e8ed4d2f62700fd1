"""Which days of topics have to be made anew: a day is held against the 28 before it, from the agent's first one on.
And how much work there is in texts, which their number alone does not tell: they may be long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from manydesks.pipeline.transforms.gold.topics import PAST

#: about as many words and pairs of words has a text
WORDS = 20
#: in a file of long ones, compressed, about so many bytes make a row of `terms_daily`
TERM_BYTES = 6
#: so many bytes of such a file are worked on in one piece, seconds of CPU; and there are so many pieces at most
PIECE_BYTES, MOST_PIECES = 2 * 1024 * 1024, 200


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
            # an agent that turns out to be older than it seemed has more days to be held against; what was its first
            # day before is the first untouched one at the latest
            if days[0] in self.touched:
                first = next((day for day in days if day not in self.touched), days[0])
                found |= {day for day in known if days[0] <= day < _after(first, PAST)}
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


def pieces_of(size: int) -> int:
    """Into how many pieces texts are laid to be worked on side by side; `size`: the bytes of their files."""
    return min(size // PIECE_BYTES + 1, MOST_PIECES)


def terms_about(texts: int, size: int) -> int:
    """How many rows of `terms_daily` so many texts give, about."""
    return max(texts * WORDS, size // TERM_BYTES)


def _after(day: str, days: int) -> str:
    """One that no calendar here knows, from a clock that told nonsense, has no others around it."""
    try:
        return (date.fromisoformat(day) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        return day


def _from(day: str, days: int) -> list[str]:
    """The day and so many after it."""
    return [_after(day, number) for number in range(days + 1)]
