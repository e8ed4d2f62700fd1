"""Time is an argument: whoever needs it is given a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks that are never mixed."""

    def now(self) -> int:
        """Milliseconds UTC since 1970: for people and for moments; may jump."""

    def monotonic(self) -> int:
        """Milliseconds since the boot: for leases and durations; never jumps."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000
