"""One transaction: its rows, its moment, its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

READ_MARK = "select seq from marks where name = ?"
WRITE_MARK = "insert into marks (name, seq) values (?, ?) on conflict (name) do update set seq = excluded.seq"
ADD_COUNT = """
insert into counters (scope, agent, state, n) values (?, ?, ?, ?)
on conflict (scope, agent, state) do update set n = n + excluded.n
"""
#: the head row makes `seq` gapless and lets it go on after pruning
ADVANCE_HEAD = "update ledger_head set seq = seq + ? where only = 1 returning seq"


class Transaction:
    """What an operation of the writer is given.

    Events, sequences and counters are gathered and written by `finish`, just before COMMIT: one statement for a whole
    batch of operations instead of one each.
    """

    __slots__ = ("_counts", "_events", "_sequences", "boot", "db", "mono", "now")

    #: the ledger's insert; its first value is `seq`
    INSERT_EVENT = ""

    def __init__(self, db: apsw.Connection, *, now: int, mono: int, boot: str) -> None:
        self.db = db
        self.now = now
        self.mono = mono
        self.boot = boot
        self._events: list[tuple[Any, ...]] = []
        self._sequences: dict[str, int] = {}
        self._counts: dict[tuple[str, str, int], int] = {}

    @property
    def gathered(self) -> int:
        """How many events wait for `finish`."""
        return len(self._events)

    def one(self, sql: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row, with the statement run to its end: a half-read RETURNING would hold the write lock."""
        rows = self.db.execute(sql, values).fetchall()
        return rows[0] if rows else None

    def all(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, values).fetchall()

    def run(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        self.db.execute(sql, values)

    def insert(self, table: str, values: Mapping[str, Any]) -> int:
        """Insert a row; its rowid. Table and column names come from our own code only."""
        columns = ", ".join(values)
        places = ", ".join("?" * len(values))
        self.db.execute(f"insert into {table} ({columns}) values ({places})", tuple(values.values()))
        return self.db.last_insert_rowid()

    def next(self, sequence: str) -> int:
        """The next value of a never-reset sequence."""
        value = self._sequences.get(sequence)
        if value is None:
            row = self.one(READ_MARK, (sequence,))
            value = row[0] if row else 0
        self._sequences[sequence] = value = value + 1
        return value

    def count(self, scope: str, agent: str, before: int | None, after: int | None, n: int = 1) -> None:
        """Rows of that scope went from one state to another (None: they were, or are, not there)."""
        if before is not None:
            key = (scope, agent, before)
            self._counts[key] = self._counts.get(key, 0) - n
        if after is not None:
            key = (scope, agent, after)
            self._counts[key] = self._counts.get(key, 0) + n

    def finish(self) -> None:
        """Write what was gathered."""
        for name, value in self._sequences.items():
            self.db.execute(WRITE_MARK, (name, value))
        if self._counts:
            self.db.executemany(ADD_COUNT, [(*key, n) for key, n in self._counts.items() if n])
        if self._events:
            head = self.one(ADVANCE_HEAD, (len(self._events),))
            assert head is not None
            first = head[0] - len(self._events) + 1
            self.db.executemany(self.INSERT_EVENT, [(seq, *row) for seq, row in enumerate(self._events, first)])
