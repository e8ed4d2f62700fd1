"""How often other machines may ask: so many requests a minute each, spread out or all at once."""

from __future__ import annotations

from manydesks.domain.clock import Clock

#: machines that are remembered
MOST_ADDRESSES = 10_000


class Pace:
    """A bucket for each address: it holds a minute's requests, and fills as time goes by."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: address → what is left in it, and when that was
        self._left: dict[str, tuple[float, int]] = {}

    def wait(self, address: str, per_minute: int) -> int:
        """0: go on. Else in how many seconds the next request may come."""
        now = self._clock.monotonic()
        left, last = self._left.pop(address, (float(per_minute), now))
        left = min(float(per_minute), left + (now - last) * per_minute / 60_000)
        allowed = left >= 1
        self._left[address] = (left - 1 if allowed else left), now
        if len(self._left) > MOST_ADDRESSES:
            del self._left[next(iter(self._left))]
        return 0 if allowed else max(1, round((1 - left) * 60 / per_minute))
