"""How far a long command is, on a terminal's stderr."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from manydesks.cli.output import Output
from manydesks.cli.text import cut, one_line
from manydesks.domain.clock import Clock, SystemClock

if TYPE_CHECKING:
    from manydesks.pipeline.jobs.step import Progress, Rows, Step

#: how often the seconds are counted on
TICK_SECONDS = 0.5
#: how often it is asked what steps have read
LOOK_SECONDS = 0.5
#: the thread that asks
LOOKING = "pipeline-look"
#: columns of the bar itself, at most and at least, and of the name before it
BAR, SHORT, NAME = 30, 10, 18


class Followed(Protocol):
    """What knows how far steps are between two words of their jobs, as the pipeline's `Underway` does."""

    def tell(self, step: str, done: int, total: int) -> None:
        """A job's `Progress`."""

    def rows(self) -> Mapping[str, Rows]:
        """By steps. It may take long, but raises nothing."""


@dataclass(kw_only=True)
class _Shown:
    """A step under way."""

    #: by the monotonic clock
    since: int
    done: int = 0
    total: int = 0
    #: rows that were read, and rows that were gone through in all, between two words of the job
    read: int = 0
    passed: int = 0

    @property
    def over(self) -> bool:
        """All of it is done, or it is one of which nobody can tell."""
        return self.done >= self.total


class Bar:
    """Some lines on a terminal's stderr, written over and over; nothing anywhere else, nor on a dumb one: one for the
    step that ended last, and one for each that is under way."""

    def __init__(self, out: Output, clock: Clock) -> None:
        self._stream = out.stderr if out.stderr.isatty() and not out.dumb and not out.json else None
        self._clock = clock
        #: the lines are written by the command, by the threads of steps and by the ticking
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._steps: dict[str, _Shown] = {}
        self._ended = ""
        #: lines on the terminal
        self._lines = 0

    def say(self, text: str) -> None:
        """Something that has no length known beforehand."""
        self.step(text, 0, 0)

    def step(self, step: str, done: int, total: int) -> None:
        """As a job's `Progress` tells it. Steps that are not at their end stay beside it: two may be under way."""
        with self._writing:
            if self._over.is_set():
                return
            known = self._steps.get(step)
            if known is None:
                known = _Shown(since=self._clock.monotonic())
                self._steps = {name: other for name, other in self._steps.items() if not other.over}
                self._steps[step] = known
            known.done, known.total = done, total
            self._draw()

    @property
    def shown(self) -> bool:
        """Whether there is anybody who sees it."""
        return self._stream is not None

    @contextmanager
    def follow(self, followed: Followed) -> Iterator[Progress]:
        """Gives what the job is to tell its progress to. Until the end of the block steps also move with the rows that
        they read; where nobody sees it, nothing is asked."""
        if not self.shown:
            yield self.step
            return
        over = threading.Event()

        def tell(step: str, done: int, total: int) -> None:
            followed.tell(step, done, total)
            self.step(step, done, total)

        def look() -> None:
            while not over.wait(LOOK_SECONDS):
                self._read(followed.rows())

        looking = threading.Thread(target=look, name=LOOKING, daemon=True)
        looking.start()
        try:
            yield tell
        finally:
            over.set()
            # not for ever: the command must end also if no answer comes
            looking.join(LOOK_SECONDS)

    def _read(self, rows: Mapping[str, Rows]) -> None:
        with self._writing:
            for name, shown in self._steps.items():
                if (found := rows.get(name)) is not None:
                    shown.read, shown.passed = max(shown.read, found.read), max(shown.passed, found.passed)
            self._draw()

    def ended(self, step: Step) -> None:
        """As a job tells it at the end of a step: what came of it is shown until the next one ends. One that had
        nothing to do is not worth the line."""
        with self._writing:
            self._steps.pop(step.name, None)
            if step.taken or step.rows:
                self._ended = ended_line(step.name, step.taken, step.rows, step.seconds)
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
            self._steps, self._ended = {}, ""
            self._draw()

    def _draw(self) -> None:
        if self._stream is None:
            return
        now, room = self._clock.monotonic(), _columns(self._stream) - 1
        lines = [self._ended] if self._ended else []
        for name, shown in self._steps.items():
            if name:
                done = max(shown.done, min(shown.read, shown.total))
                seconds = (now - shown.since) / 1000
                lines.append(line_of(name, done, shown.total, seconds, passed=shown.passed, room=room))
        if not lines and not self._lines:
            return
        up = f"\x1b[{self._lines - 1}A" if self._lines > 1 else ""
        self._stream.write(f"{up}\r\x1b[J" + "\n".join(cut(line, room) for line in lines))
        self._stream.flush()
        self._lines = len(lines)


def line_of(step: str, done: int, total: int, seconds: float, *, passed: int = 0, room: int = 100) -> str:
    """The bar as text, shorter where there is little room. A step that is not told in rows has no bar: nobody knows how
    far it is."""
    name, time = f"{one_line(step):<{NAME}}", f"{seconds:.0f} s"
    if total <= 1:
        return f"{name} {time}"
    speed = f"  {passed / seconds:,.0f} rows/s" if passed and seconds >= 1 else ""
    words = f" of {total:,}  {time}{speed}"
    columns = max(SHORT, min(BAR, room - len(f"{name} [] {total:,}{words}")))
    full = min(done, total) * columns // total
    return f"{name} [{'#' * full}{'.' * (columns - full)}] {done:,}{words}"


def ended_line(step: str, taken: int, rows: int, seconds: float) -> str:
    """What came of a step."""
    return f"{one_line(step):<{NAME}} {taken:,} rows in, {rows:,} out  {seconds:.1f} s"


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
