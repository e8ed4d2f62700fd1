"""Ctrl-C while Spark is at work.

On a terminal it reaches Spark's Python workers too, and pyspark answers it by cancelling all jobs: what was under way
then fails in a way of its own, which may be heard of before the interruption is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_asked = threading.Event()


def is_interrupted() -> bool:
    """Whether somebody has asked for the end: what fails from now on fails for that."""
    return _asked.is_set()


@contextmanager
def interruptible(cancel: Callable[[], object]) -> Iterator[None]:
    """For the main thread: inside the block Ctrl-C calls `cancel`, and then raises `KeyboardInterrupt` in any case."""

    def take(number: int, frame: FrameType | None) -> None:
        _asked.set()
        try:
            cancel()
        finally:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, take)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _asked.clear()
