"""The wish that a watch ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """A signal's wish, or that of a parent process that is gone.

    Only a flag that is looked at: a signal's handler that takes a lock could wait for the very thread it interrupts.
    """

    def __init__(self, parent: int | None = None) -> None:
        """`parent`: the process that must stay our parent; None: any."""
        self._parent = parent
        self._asked = False

    def ask(self) -> None:
        self._asked = True

    @property
    def asked(self) -> bool:
        return self._asked or (self._parent is not None and os.getppid() != self._parent)

    def listen(self) -> None:
        """Take SIGTERM and Ctrl-C from now on; a second Ctrl-C waits for nothing."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = True


@contextmanager
def listening(stop: Stop) -> Iterator[None]:
    """Signals are a wish to end inside the block, and what they were before it afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop.listen()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
