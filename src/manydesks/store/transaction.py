"""One transaction: its rows, its moment, its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import apsw

READ_MARK = "select seq from marks where name = ?"
WRITE_MARK = "insert into marks (name, seq) values (?, ?) on conflict (name) do update set seq = excluded.seq"
ADD_COUNT = """
insert into counters (scope, agent, state, n) values (?, ?, ?, ?)
on conflict (scope, agent, state) do update set n = n + excluded.n
"""
READ_COUNTS = "select state, n from counters where scope = ? and agent = ?"
#: the head row makes `seq` gapless and lets it go on after pruning
READ_HEAD = "select seq from ledger_head where only = 1"
WRITE_HEAD = "update ledger_head set seq = ? where only = 1"
#: how the head is called among the sequences that are remembered
HEAD = "ledger head"
NOTHING: Mapping[str, int] = MappingProxyType({})

#: the texts of inserts, by table and columns; these are named by our own code, so they are few
_inserts: dict[tuple[str, ...], str] = {}


class Transaction:
    """What an operation of the writer is given.

    Events, sequences and counters are gathered and written by `finish`, just before COMMIT: one statement for a whole
    batch of operations instead of one each. An operation whose statements look at them calls `settle` first.
    """

    __slots__ = (
        "_changes",
        "_counts",
        "_cursor",
        "_events",
        "_known",
        "_sequences",
        "_settled",
        "_told",
        "boot",
        "db",
        "is_over",
        "mono",
        "now",
        "steady",
    )

    #: the ledger's insert; its first value is `seq`
    INSERT_EVENT = ""

    def __init__(
        self,
        db: apsw.Connection,
        *,
        now: int,
        mono: int,
        steady: int,
        boot: str,
        known: Mapping[str, int] = NOTHING,
    ) -> None:
        self.db = db
        #: milliseconds UTC: for people
        self.now = now
        #: milliseconds of this boot: for leases
        self.mono = mono
        #: milliseconds UTC that nobody sets: for waits
        self.steady = steady
        self.boot = boot
        #: a caller's own: its block was left
        self.is_over = False
        #: for statements that are run to their end: making a cursor for each takes as long as most of them
        self._cursor = db.cursor()
        self._changes = db.total_changes()
        self._events: list[tuple[Any, ...]] = []
        #: sequences as the last transaction left them, if nobody else has written since
        self._known = known
        self._sequences: dict[str, int] = {}
        self._counts: dict[tuple[str, str, int], int] = {}
        #: what `settle` has written: rows, and events among them
        self._settled = self._told = 0

    @property
    def is_news(self) -> bool:
        """Whether it changed something that others wait for."""
        return self.db.total_changes() != self._changes

    @property
    def moves(self) -> tuple[int, int]:
        """Rows that were changed and events that were told by operations so far: the same as before one of them, if
        that one has changed nothing."""
        return self.db.total_changes() - self._settled, self._told + len(self._events)

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row, with the statement run to its end: a half-read RETURNING would hold the write lock."""
        try:
            rows = self._cursor.execute(sql, values).fetchall()
        except UnicodeDecodeError as error:
            raise _damaged(error) from error
        return rows[0] if rows else None

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._cursor.execute(sql, values).fetchall()
        except UnicodeDecodeError as error:
            raise _damaged(error) from error

    def run(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        """A statement that returns no rows."""
        self._cursor.execute(sql, values)

    def many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """The same statement for each of these."""
        self._cursor.executemany(sql, rows)

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        """Insert a row; its rowid. Table and column names come from our own code only."""
        about = (table, *values)
        sql = _inserts.get(about)
        if sql is None:
            columns, places = ", ".join(values), ", ".join("?" * len(values))
            sql = _inserts[about] = f"insert into {table} ({columns}) values ({places})"
        self._cursor.execute(sql, tuple(values.values()))
        return self.db.last_insert_rowid()

    def next(self, sequence: str) -> int:
        """The next value of a never-reset sequence."""
        value = self._sequences.get(sequence)
        value = self._sequences[sequence] = (self.last(sequence) if value is None else value) + 1
        return value

    def last(self, sequence: str) -> int:
        """The value that a sequence gave last; 0 if none."""
        value = self._sequences.get(sequence)
        if value is None:
            value = self._known.get(sequence)
        if value is None:
            row = self.one(READ_MARK, (sequence,))
            value = row[0] if row else 0
        return value

    def count(self, scope: str, agent: str, before: int | None, after: int | None, n: int = 1) -> None:
        """Rows of that scope went from one state to another (None: they were, or are, not there)."""
        if before is not None:
            key = (scope, agent, before)
            self._counts[key] = self._counts.get(key, 0) - n
        if after is not None:
            key = (scope, agent, after)
            self._counts[key] = self._counts.get(key, 0) + n

    def counts(self, scope: str, agent: str) -> dict[int, int]:
        """How many rows are in each state, with what this transaction has done so far."""
        found: dict[int, int] = dict(self.all(READ_COUNTS, (scope, agent)))
        for (counted, whose, state), n in self._counts.items():
            if (counted, whose) == (scope, agent):
                found[state] = found.get(state, 0) + n
        return found

    def settle(self) -> None:
        """Write what was gathered so far, so that statements see it."""
        before, cursor = self.db.total_changes(), self._cursor
        for name, value in self._sequences.items():
            if name != HEAD:
                cursor.execute(WRITE_MARK, (name, value))
        if self._counts:
            cursor.executemany(ADD_COUNT, [(*key, n) for key, n in self._counts.items() if n])
        if self._events:
            head = self._sequences.get(HEAD) or self._known.get(HEAD)
            if head is None:
                # read, then written: one `update … returning` takes more CPU than both
                ((head,),) = self.all(READ_HEAD)
            self._sequences[HEAD] = head + len(self._events)
            cursor.execute(WRITE_HEAD, (self._sequences[HEAD],))
            if len(self._events) == 1:
                cursor.execute(self.INSERT_EVENT, (head + 1, *self._events[0]))
            else:
                cursor.executemany(self.INSERT_EVENT, [(seq, *row) for seq, row in enumerate(self._events, head + 1)])
        self._told += len(self._events)
        self._events, self._counts = [], {}
        self._settled += self.db.total_changes() - before

    def finish(self) -> dict[str, int]:
        """Write what was gathered; the sequences as they are now, and the ledger's head among them."""
        self.settle()
        return self._sequences


def _damaged(error: UnicodeDecodeError) -> apsw.Error:
    """SQLite does not look into text, so a damaged page may get as far as here."""
    return apsw.CorruptError(f"it has text that is not UTF-8 ({error})")
