"""How far a long command is, on a terminal's stderr."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from manydesks.cli.output import Output
from manydesks.cli.text import cut, one_line
from manydesks.domain.clock import Clock, SystemClock

#: how often the seconds are counted on
TICK_SECONDS = 0.5
#: columns of the bar itself, and of the name before it
BAR, NAME = 30, 18


class Bar:
    """One line on a terminal's stderr, written over and over; nothing anywhere else."""

    def __init__(self, out: Output, clock: Clock) -> None:
        self._stream = out.stderr if out.stderr.isatty() and not out.json else None
        self._clock = clock
        #: the line is written by the command and by the ticking
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._shown: tuple[str, int, int] = ("", 0, 0)
        self._since = 0

    def say(self, text: str) -> None:
        """Something that has no length known beforehand."""
        self.step(text, 0, 0)

    def step(self, step: str, done: int, total: int) -> None:
        """As a job's `Progress` tells it."""
        with self._writing:
            if step != self._shown[0]:
                self._since = self._clock.monotonic()
            self._shown = (step, done, total)
            self._draw()

    def tick(self) -> None:
        """Counts the seconds until the bar is cleared."""
        while self._stream is not None and not self._over.wait(TICK_SECONDS):
            with self._writing:
                self._draw()

    def clear(self) -> None:
        """Leaves nothing of it on the terminal; it is not shown again."""
        self._over.set()
        with self._writing:
            if self._stream is not None and self._shown[0]:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            self._shown = ("", 0, 0)

    def _draw(self) -> None:
        if self._stream is None or not self._shown[0]:
            return
        seconds = (self._clock.monotonic() - self._since) / 1000
        line = cut(line_of(*self._shown, seconds), _columns(self._stream) - 1)
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()


def line_of(step: str, done: int, total: int, seconds: float) -> str:
    """The bar as text. A step that is not told in rows has no bar: nobody knows how far it is."""
    passed = f"{seconds:.0f} s"
    if total <= 1:
        return f"{one_line(step):<{NAME}} {passed}"
    full = min(done, total) * BAR // total
    return f"{one_line(step):<{NAME}} [{'#' * full}{'.' * (BAR - full)}] {done:,} of {total:,}  {passed}"


@contextmanager
def progress(out: Output, clock: Clock | None = None) -> Iterator[Bar]:
    """A bar that is gone after the block."""
    bar = Bar(out, clock or SystemClock())
    ticking = threading.Thread(target=bar.tick, daemon=True)
    ticking.start()
    try:
        yield bar
    finally:
        bar.clear()
        ticking.join()


def _columns(terminal: TextIO) -> int:
    try:
        return os.get_terminal_size(terminal.fileno()).columns or 80
    except OSError:
        return 80
