"""A clock that moves only when it is told to."""

from __future__ import annotations


class ManualClock:
    """The clocks of `manydesks.domain.clock.Clock`, by hand; not for use by several threads while it is moved."""

    def __init__(self, *, now: int = 1_700_000_000_000, monotonic: int = 1_000_000) -> None:
        self._now = now
        self._monotonic = monotonic
        self._slept = 0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._monotonic

    def since_boot(self) -> int:
        return self._monotonic + self._slept

    def advance(self, milliseconds: int) -> None:
        """Time passes: all clocks move on."""
        if milliseconds < 0:
            raise ValueError("Time passes forwards only; `jump` sets the wall clock back.")
        self._now += milliseconds
        self._monotonic += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Somebody sets the wall clock, forwards or back; the others do not notice."""
        self._now += milliseconds

    def sleep(self, milliseconds: int) -> None:
        """The machine sleeps: the monotonic clock stands still."""
        self._now += milliseconds
        self._slept += milliseconds

    def reboot(self, *, away: int = 0) -> None:
        """The machine starts anew after `away` milliseconds: what counts from the boot begins at 0."""
        self._now += away
        self._monotonic = self._slept = 0
