"""How often something is asked again when no answer came, and how long a call may take."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from manydesks.client.calls import AGAIN_SECONDS, POLL_SECONDS
from manydesks.domain.errors import BadInput

#: an office that is restarted is back within these
TRIES = 10
#: a call with a time of its own ends so long after it at the latest: a long poll is answered when its time is over, and
#: that answer needs its way back
MARGIN_SECONDS = 2.0
#: one that has no time left asks all the same, once
SHORTEST_SECONDS = 0.1


def pauses(tries: int) -> Iterator[float | None]:
    """After each try how long to wait for the next; None after the last."""
    for number in range(max(1, tries) - 1):
        yield pause(number)
    yield None


def pause(tried: int) -> float:
    return AGAIN_SECONDS[min(tried, len(AGAIN_SECONDS) - 1)]


class Time:
    """The seconds that a call may take, with all that it asks; without `seconds` there is no end to them."""

    def __init__(self, seconds: float = math.inf) -> None:
        if math.isnan(seconds):
            raise BadInput("`seconds` is a number, and this is none (nan).")
        self._end = time.monotonic() + seconds

    def left(self, most: float = math.inf) -> float:
        """Of the seconds, never below zero and never above `most`."""
        return min(most, max(0.0, self._end - time.monotonic()))

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def is_past(self) -> bool:
        """With the margin."""
        return time.monotonic() >= self._end + MARGIN_SECONDS

    def end(self) -> float | None:
        """How long the whole may still take, with the margin; None: for ever."""
        return None if math.isinf(self._end) else self.timeout()

    def poll(self) -> float:
        """How long the office may wait before it answers."""
        return round(self.left(POLL_SECONDS), 3)

    def timeout(self, most: float = math.inf) -> float:
        """How long to wait for an answer now: with the margin, and never above `most`."""
        return min(most, max(SHORTEST_SECONDS, self._end + MARGIN_SECONDS - time.monotonic()))
