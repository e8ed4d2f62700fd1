"""How many runs there may be at one time of the agents of one provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Caps:
    #: of a provider without a number of its own
    each: int = 1_000_000
    #: by provider
    own: Mapping[str, int] = field(default_factory=dict)
    #: runs that wait for a person, by provider: they take nobody's desk
    asking: Mapping[str, int] = field(default_factory=dict)

    def of(self, provider: str) -> int:
        """Runs of this provider that may be under way, those that wait for a person included."""
        return self.own.get(provider, self.each) + self.asking.get(provider, 0)
