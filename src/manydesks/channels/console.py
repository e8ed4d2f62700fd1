"""The console: the terminal that the office runs in, and commands that wait for an answer.

A command that waits reads the response from the store; delivery tells it, through the ledger, that it may. What is
printed here is for the person who watches the office, so a line printed twice after a crash does no harm, and one that
nobody can read does not matter.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from queue import Full, Queue

from manydesks.channels.base import Descriptor, Line, Receipt
from manydesks.domain.envelope import Parcel
from manydesks.domain.reading import readable

#: lines that a stopped terminal (Ctrl-S, a pipe that nobody reads) may leave behind; more are not printed
BACKLOG = 1000


class Screen:
    """Prints from a thread of its own: a terminal that stands still must not make the office do so."""

    def __init__(self, stamp: Callable[[], str] | None = None) -> None:
        """`stamp`: what each line begins with, where it is kept among others; None: a person watches."""
        self._stamp = stamp
        # one place more, which no line takes: for the word that it is over
        self._lines: Queue[str | None] = Queue(BACKLOG + 1)
        self._thread = threading.Thread(target=self._work, name="screen", daemon=True)
        self._thread.start()

    def show(self, line: str) -> None:
        with contextlib.suppress(Full):
            if self._lines.qsize() < BACKLOG:
                self._lines.put_nowait(line if self._stamp is None else f"{self._stamp()} {line}")

    def close(self, seconds: float = 1.0) -> None:
        """Print what is left, as far as the terminal takes it."""
        with contextlib.suppress(Full):
            self._lines.put_nowait(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            _print(line)


def _print(line: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        # a terminal that cannot hold a character gets its number instead
        print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except (OSError, ValueError):
        # a closed terminal, a full disk under the log: from now on nothing is printed, also at the interpreter's end
        with contextlib.suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)


class Console:
    def __init__(self, show: Callable[[str], None], *, texts: bool = True) -> None:
        self._show = show
        #: False: only that there was an answer; a log file must not keep what was said
        self._texts = texts

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def send(self, parcel: Parcel) -> Receipt:
        said = _shown(parcel) if self._texts else _told(parcel)
        line = f"{parcel.agent or 'the office'} → {parcel.sender}: {said}"
        self._show("".join(c if c.isprintable() or c in "\n\t" else "�" for c in line))
        return Receipt(id=f"console:{parcel.id}")


def _told(parcel: Parcel) -> str:
    """That something was said, without a word of it. A notice may tell of a failure: it is no answer."""
    length = f"({len(parcel.text)} characters)"
    if parcel.message_id is None:  # what comes of itself is about no message
        return f"{parcel.operation} {length}"
    what = "answered" if parcel.operation == "message" else f"{parcel.operation} about"
    return f"{what} {parcel.message_id} {length}"


def _shown(parcel: Parcel) -> str:
    question = parcel.metadata.get("question", {}).get("id")
    return readable(operation=parcel.operation, text=parcel.text, files=parcel.files, question=question)


def _load(line: Line) -> Console:
    return Console(line.show, texts=sys.stdout.isatty())


CHANNEL = Descriptor(
    name="console",
    load=_load,
    by_itself=True,
    # whoever waits for an answer reads it, whole, from the store
    files="along",
    edits=True,
    reactions=True,
    cards=True,
    buttons=True,
    cut_off="resend",
    summary="the terminal that the office runs in, and commands that wait",
)
