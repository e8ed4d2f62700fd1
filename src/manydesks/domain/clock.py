"""Time is an argument: whoever needs it is given a clock."""

from __future__ import annotations

import time
from typing import Protocol

#: Linux counts the time asleep in a clock of its own; the monotonic one of macOS has it
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Three clocks that are never mixed."""

    def now(self) -> int:
        """Milliseconds UTC since 1970: for people and for moments; may jump."""

    def monotonic(self) -> int:
        """Milliseconds of a machine that is awake: for leases and durations; never jumps."""

    def since_boot(self) -> int:
        """Milliseconds since the boot, sleep included: for waits that were promised; never jumps."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def since_boot(self) -> int:
        return time.clock_gettime_ns(_SINCE_BOOT) // 1_000_000
