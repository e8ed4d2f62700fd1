"""The office's log and those of its desks, read as one: the last lines, and what is added from now on.

Files are renamed when they have grown (`hostlog.py`, `desk/logbook.py`). Who follows keeps the file open and reads it
to its end before the new one, so that no line is lost or seen twice.
"""

from __future__ import annotations

import heapq
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from manydesks.desk.logbook import RUNS

#: how a line of ours begins; a program's lines have no time of their own
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")
#: of older files, so many are looked for at most
OLDER = 9
#: a line without an end that is longer than this is shown as it is
LONGEST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a log."""

    #: when it was written, as it says, or as the line before it says; sorts as text
    at: str
    #: `office`, or the session of a desk
    source: str
    text: str


Wanted = Callable[[str], bool]


class Source:
    """One log, with the older files beside it. A file that cannot be read has no lines."""

    def __init__(self, name: str, path: Path, wanted: Callable[[], Wanted]) -> None:
        """`wanted` makes a judge of lines, which are shown to it in their order."""
        self.name = name
        self._path = path
        self._make = wanted
        self._judge = wanted()
        self._open: int | None = None
        self._rest = b""
        self._at = ""

    def last(self, most: int) -> list[Line]:
        """The last lines that are wanted; following goes on behind them."""
        found: deque[Line] = deque(maxlen=most)
        self._judge = self._make()
        # opened before the older ones are looked for: if it is renamed meanwhile, it is not taken for one of them
        self._take()
        for path in reversed(self._older()):
            found.extend(filter(None, map(self._line, self._whole(path))))
        found.extend(self.more())
        return list(found)

    def more(self) -> Iterator[Line]:
        """What was added since the last look."""
        yield from filter(None, map(self._line, self._fresh()))

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def _line(self, text: str) -> Line | None:
        if time := _TIME.match(text):
            self._at = time.group()
        return Line(at=self._at, source=self.name, text=text) if self._judge(text) else None

    def _older(self) -> list[Path]:
        """The newest first."""
        return [self._path.with_name(f"{self._path.name}.{number}") for number in range(1, OLDER + 1)]

    def _whole(self, path: Path) -> list[str]:
        try:
            if self._open is not None and os.path.samestat(os.fstat(self._open), path.lstat()):
                return []
            return path.read_bytes().decode(errors="replace").split("\n")[:-1]
        except OSError:
            return []

    def _fresh(self) -> Iterator[str]:
        while True:
            yield from self._read()
            if not self._renamed():
                return
            # what was written between the last read and the renaming
            yield from self._read()
            if self._rest:
                yield self._rest.decode(errors="replace")
            self._rest = b""
            self.close()

    def _take(self) -> bool:
        if self._open is None:
            try:
                self._open = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                return False
        return True

    def _read(self) -> Iterator[str]:
        if not self._take():
            return
        assert self._open is not None
        while block := os.read(self._open, 1 << 16):
            *lines, self._rest = (self._rest + block).split(b"\n")
            if len(self._rest) > LONGEST:
                lines.append(self._rest)
                self._rest = b""
            for line in lines:
                yield line.decode(errors="replace")

    def _renamed(self) -> bool:
        """Whether there is another file by this name; one that is only gone is waited for."""
        if self._open is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self._open), self._path.stat())
        except OSError:
            return False


def merged(lines: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """All of them in the order of their times; those of one source stay in theirs."""
    return heapq.merge(*lines, key=lambda line: line.at)


def everything() -> Wanted:
    return lambda text: True


def naming(word: str) -> Callable[[], Wanted]:
    """Lines that name this agent, channel or run, and what follows such a line without a time: a stack trace.

    Only a line with a time has more to follow; one without that names somebody stands for itself.
    """
    named = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")

    def make() -> Wanted:
        belongs = False

        def judge(text: str) -> bool:
            nonlocal belongs
            names = named.search(text) is not None
            if _TIME.match(text):
                belongs = names
            return belongs or names

        return judge

    return make


def of_run(run: str) -> Callable[[], Wanted]:
    """What lies between the two lines by which a runner says where the run begins and ends."""

    def make() -> Wanted:
        inside = False

        def judge(text: str) -> bool:
            nonlocal inside
            if RUNS not in text:
                return inside
            said = text.partition(RUNS)[2]
            if said.startswith(f"run {run} begins"):
                inside = True
                return True
            # the begin of another run ends this one as well: its own end may be lost with a killed runner
            before, inside = inside, False
            return before and said.startswith(f"run {run} ends")

        return judge

    return make
