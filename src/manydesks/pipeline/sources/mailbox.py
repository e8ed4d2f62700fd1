"""One file of a session's mailbox, read by somebody who is neither host nor desk.

It is read as the host reads the work of a stranger (`mailbox/hostile.py`): through a hard link of our own, so that
nothing is ever written beside the file and no journal is replayed. The lock that a writer waits for is held for one
short page at a time.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import DataType, DoubleType, LongType

from manydesks.domain.errors import MailboxRefused, MailboxTimeout
from manydesks.mailbox import hostile
from manydesks.mailbox.collector import reach
from manydesks.mailbox.validation import MAX_INTEGER, RowError
from manydesks.pipeline.bronze import SESSION_ACKS, SESSION_MESSAGES, SESSION_STEPS
from manydesks.pipeline.columns import TableSpec

#: of one page, which is read under the lock: whichever comes first
PAGE_ROWS = 1_000
PAGE_BYTES = 4 << 20
PAGE_SECONDS = 0.05
#: how long a file that is being written is waited for
LOCK_SECONDS = 0.5
#: A journal is hot if its writer has died. That of a writer at work who does not wait for the disk looks the same for
#: a moment: so it is looked at again, so often, after so long.
HOT_LOOKS, HOT_SECONDS = 10, 0.03
#: as the host has it; a larger file is none of a mailbox
CAP_BYTES = 256 << 20

#: where each side lies in a session's folder
FILES: Final = {"in": ("in", "inbound.db"), "out": ("out", "outbound.db")}
SIDES: Final = {"in": hostile.IN, "out": hostile.OUT}

#: takes rows: the table of the lake, the file's epoch, and the values of `Kind.columns`
Take = Callable[[TableSpec, str | None, Sequence[Any]], None]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One table of a mailbox."""

    #: its name in the file
    name: str
    #: the table of the lake that its rows go to
    spec: TableSpec
    #: the number of the row first; both have the same names
    columns: tuple[str, ...]

    @property
    def select(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.columns)
        return f"SELECT {names} FROM {self.name}"

    @cached_property
    def _types(self) -> list[tuple[str, tuple[type, ...]]]:
        by_name = {column.name: column for column in self.spec.columns}
        return [(name, _allowed(by_name[name].type, nullable=by_name[name].nullable)) for name in self.columns]

    def trouble(self, row: Sequence[Any]) -> str | None:
        """What of the row is not of the type that it has to be; a forged file may hold anything anywhere."""
        for value, (name, allowed) in zip(row, self._types, strict=True):
            if not isinstance(value, allowed):
                return f"{name} is not what it has to be"
        return None


GIVEN = Kind(
    name="messages_in",
    spec=SESSION_MESSAGES,
    columns=(
        *("seq", "id", "run", "fence", "kind", "at"),
        *("not_before", "tries", "trigger", "reply_to", "content"),
    ),
)
WRITTEN = (
    Kind(name="steps", spec=SESSION_STEPS, columns=("seq", "run", "at", "type", "data")),
    Kind(
        name="messages_out",
        spec=SESSION_MESSAGES,
        columns=(
            *("seq", "id", "run", "fence", "kind", "at"),
            *("in_reply_to", "deliver_after", "destination", "content"),
        ),
    ),
    Kind(
        name="acks",
        spec=SESSION_ACKS,
        columns=("seq", "message", "run", "fence", "status", "class", "reason", "retry_after", "at"),
    ),
)
_FENCE = GIVEN.columns.index("fence")


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """What the lake has of a file."""

    #: of the desk's file; the numbers below are this epoch's
    epoch: str | None = None
    #: the highest numbers
    messages: int = 0
    steps: int = 0
    acks: int = 0
    #: of the host's file: the highest fence, and the numbers of what was given under it
    fence: int = 0
    given: tuple[int, ...] = ()

    def of(self, spec: TableSpec) -> int:
        """The highest number of a table's rows that the desk wrote."""
        return {SESSION_MESSAGES.name: self.messages, SESSION_STEPS.name: self.steps, SESSION_ACKS.name: self.acks}[
            spec.name
        ]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is to be read of a file: rows with `after < number <= upto` that lie beyond the cursor."""

    #: `in` or `out`
    side: str
    cursor: Cursor
    after: int = 0
    upto: int = MAX_INTEGER
    #: of the host's file, if it is read in parts: all of them take claims up to this one
    fence: int | None = None
    #: of the desk's file, if it is read in parts: of which one they are parts
    epoch: str | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How it went."""

    #: `read`; `refused`: by what lies there; `later`: somebody is at work on it, the next run looks again
    outcome: str
    #: why, if it was refused; if it was read, what of it was left out
    reason: str | None = None
    #: rows with higher numbers were not looked at; None: it was read to its end
    reached: int | None = None
    epoch: str | None = None
    #: the highest number that was given in this epoch when reading began
    last: int = 0


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How far a file goes, for cutting it into parts."""

    epoch: str | None
    last: int
    fence: int


def survey(folder: Path, side: str, private: Path, token: str) -> Extent | None:
    """How far the file goes; None if it cannot be read now, which whoever reads it will tell."""
    try:
        with _looked_into(folder, side, private, token) as connection:
            if connection is None:
                return None
            if side == "in":
                last, fence = connection.execute("SELECT max(seq), max(fence) FROM messages_in").fetchone()
                return Extent(epoch=None, last=_number(last), fence=_number(fence))
            epoch, last = reach(connection)
            return Extent(epoch=epoch, last=last, fence=0)
    except (MailboxRefused, MailboxTimeout):
        return None


def pages(folder: Path, part: Part, private: Path, token: str, take: Take) -> Generator[None, None, Seen]:
    """Hands out the rows of a session's file, page by page, each after its lock is free again; yields after each.

    Never raises for what lies there. `private` is a folder on the file's disk that no desk can reach, `token` a name
    that nobody else uses in it.
    """
    reading = _Given(part) if part.side == "in" else _Written(part)
    at, hot = part.after, 0
    while True:
        page: list[tuple[Kind, Sequence[Any]]] = []
        try:
            with _looked_into(folder, part.side, private, token) as connection:
                if connection is None:
                    return reading.end("gone", at)
                if not reading.begin(connection):
                    return reading.end("later", at)
                at = max(at, reading.after)
                more = _fill(page, reading.rows(connection, at))
        except MailboxTimeout:
            return reading.end("later", at)
        except MailboxRefused as refused:
            if refused.details.get("hot") and hot < HOT_LOOKS:
                hot += 1
                time.sleep(HOT_SECONDS)
                continue
            # what came before it in the page is as good as any
            _hand_out(page, reading, take)
            return reading.end("refused", page[-1][1][0] if page else at, str(refused.details["reason"]))
        hot = 0
        _hand_out(page, reading, take)
        if not more:
            return reading.end("read", None)
        yield
        at = page[-1][1][0]


class _Reading:
    """What is the same for both sides."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.epoch: str | None = None
        self.last = 0
        self.after = 0
        self.begun = False
        self._odd: list[str] = []

    def begin(self, connection: sqlite3.Connection) -> bool:
        """Called for each page. False: it is not the file any more with which it began."""
        raise NotImplementedError

    def rows(self, connection: sqlite3.Connection, after: int) -> Iterator[tuple[Kind, Sequence[Any]]]:
        """In the order of their numbers."""
        raise NotImplementedError

    def wants(self, kind: Kind, row: Sequence[Any]) -> bool:
        """Whether the lake lacks it. A row that cannot be one is left out, and told of."""
        if (trouble := kind.trouble(row)) is not None:
            self._odd.append(f"row {row[0]} of {kind.name}: {trouble}")
            return False
        return True

    def end(self, outcome: str, reached: int | None, reason: str | None = None) -> Seen:
        if outcome == "gone":
            # the rest of one that was there a moment ago is no matter of the lake
            outcome, reason = (
                ("refused", "it is empty, or was removed before it could be read")
                if not self.begun
                else ("later", None)
            )
        if outcome == "read" and self._odd:
            more = f", and {len(self._odd) - 1} more" if len(self._odd) > 1 else ""
            reason = f"it was read without {self._odd[0]}{more}"
        return Seen(outcome=outcome, reason=reason, reached=reached, epoch=self.epoch, last=self.last)


class _Written(_Reading):
    """outbound.db: one counter for three tables, so one number says how far it was read."""

    def begin(self, connection: sqlite3.Connection) -> bool:
        epoch, last = reach(connection)
        if not self.begun:
            cursor = self.part.cursor
            if self.part.epoch not in (None, epoch):
                return False  # its parts were cut from another one
            highest = [
                _number(connection.execute(f"SELECT max(seq) FROM {kind.name}").fetchone()[0]) for kind in WRITTEN
            ]
            self.epoch, self.last, self.begun = epoch, max(last, *highest), True
            self._from = {
                kind.name: min(cursor.of(kind.spec), self.last) if epoch == cursor.epoch else 0 for kind in WRITTEN
            }
            self.after = min(self._from.values())
        return epoch == self.epoch

    def rows(self, connection: sqlite3.Connection, after: int) -> Iterator[tuple[Kind, Sequence[Any]]]:
        def of(kind: Kind) -> Iterator[tuple[int, Kind, Sequence[Any]]]:
            sql = f"{kind.select} WHERE seq > ? AND seq <= ? ORDER BY seq"
            for row in connection.execute(sql, (after, self.part.upto)):
                yield row[0], kind, row

        before = after
        for seq, kind, row in heapq.merge(*(of(kind) for kind in WRITTEN), key=itemgetter(0)):
            # two rows of one number: whoever goes on after it would leave one out
            if seq % 2 != 1 or seq <= before:
                raise RowError(f"row {seq} of {kind.name} is out of order or not odd")
            before = seq
            yield kind, row

    def wants(self, kind: Kind, row: Sequence[Any]) -> bool:
        return row[0] > self._from[kind.name] and super().wants(kind, row)


class _Given(_Reading):
    """inbound.db: a message that comes again replaces its row under a higher fence, so fences say what is new.

    Only if it was read to its end: a fence that was read in part would hide the rest.
    """

    def begin(self, connection: sqlite3.Connection) -> bool:
        if not self.begun:
            last, fence = connection.execute("SELECT max(seq), max(fence) FROM messages_in").fetchone()
            self.last, self.begun = _number(last), True
            # rows that are replaced while it is read are the next run's, with whatever else came under their fence
            self._fence = self.part.fence if self.part.fence is not None else _number(fence)
        return True

    def rows(self, connection: sqlite3.Connection, after: int) -> Iterator[tuple[Kind, Sequence[Any]]]:
        # by the index of fences only where few rows are new: else each page would sort all that are left
        least = "AND fence >= ?" if self.part.cursor.fence else "AND +fence >= ?"
        sql = f"{GIVEN.select} WHERE seq > ? AND seq <= ? {least} AND +fence <= ? ORDER BY seq"
        bounds = (after, self.part.upto, self.part.cursor.fence, self._fence)
        for row in connection.execute(sql, bounds):
            yield GIVEN, row

    def wants(self, kind: Kind, row: Sequence[Any]) -> bool:
        known = row[_FENCE] == self.part.cursor.fence and row[0] in self.part.cursor.given
        return not known and super().wants(kind, row)

    def end(self, outcome: str, reached: int | None, reason: str | None = None) -> Seen:
        return super().end(outcome, reached if outcome == "read" else 0, reason)


@contextmanager
def _looked_into(folder: Path, side: str, private: Path, token: str) -> Iterator[sqlite3.Connection | None]:
    place, _ = FILES[side]
    with hostile.looked_into(
        folder / place, SIDES[side], private, token=token, cap_bytes=CAP_BYTES, lock_seconds=LOCK_SECONDS
    ) as connection:
        if connection is not None:
            connection.text_factory = _text
        yield connection


def _fill(page: list[tuple[Kind, Sequence[Any]]], rows: Iterator[tuple[Kind, Sequence[Any]]]) -> bool:
    """Takes a page of rows; whether there may be more. Rows that the lake has count too: reading them takes time."""
    deadline = time.monotonic() + PAGE_SECONDS
    size = 0
    for kind, row in rows:
        page.append((kind, row))
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(page) >= PAGE_ROWS or size >= PAGE_BYTES or time.monotonic() > deadline:
            return True
    return False


def _hand_out(page: list[tuple[Kind, Sequence[Any]]], reading: _Reading, take: Take) -> None:
    for kind, row in page:
        if reading.wants(kind, row):
            take(kind.spec, reading.epoch, row)


def _text(stored: bytes) -> str:
    # SQLite checks nothing: half a character would end the reading of all that follows it
    return stored.decode("utf-8", "replace")


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _allowed(kind: DataType, *, nullable: bool) -> tuple[type, ...]:
    one: tuple[type, ...] = (int,) if isinstance(kind, LongType) else (str,)
    if isinstance(kind, DoubleType):
        one = (float, int)
    return (*one, type(None)) if nullable else one
