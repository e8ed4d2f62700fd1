"""A transaction of a jobs file, and what happened to jobs in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import apsw

from manydesks.domain.errors import BadInput
from manydesks.store.transaction import NOTHING, Transaction

#: a byte order mark is a blank to SQLite
_FIRST_WORD = re.compile(r"(?:[\s;\ufeff]|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w+)", re.DOTALL)
#: words that would end the transaction under those who gather rows in it
_OURS = frozenset(
    {"begin", "commit", "end", "rollback", "savepoint", "release", "attach", "detach", "pragma", "vacuum"}
)


class JobsTransaction(Transaction):
    """All of it happens, with its ledger events, or none of it."""

    __slots__ = ("more_leases", "paused", "rings", "swept_leases", "swept_timers")

    INSERT_EVENT = "insert into events (seq, at, kind, queue, job, data) values (?, ?, ?, ?, ?, ?)"

    def __init__(
        self, db: apsw.Connection, *, now: int, mono: int, steady: int, boot: str, known: Mapping[str, int] = NOTHING
    ) -> None:
        # one clock for all of a jobs file: no time in it ever goes back
        super().__init__(db, now=steady, mono=mono, steady=steady, boot=boot, known=known)
        #: something may be received now that could not before
        self.rings = False
        #: timers and leases are looked at once in a transaction
        self.swept_timers = False
        self.swept_leases = False
        #: more leases were over than one transaction looks after
        self.more_leases = False
        #: the queues it has asked about
        self.paused: dict[str, bool] = {}

    @property
    def is_news(self) -> bool:
        return self.rings

    def event(self, kind: str, queue: str, job: int | None, data: str | None = None) -> None:
        """Add to the ledger; `data` is JSON."""
        self._events.append((self.now, kind, queue, job, data))

    def execute(self, sql: str, values: tuple[Any, ...] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Run a caller's own SQL in this transaction, to its end; its rows."""
        if self.is_over or not self.db.in_transaction:
            raise BadInput("This transaction is over: what belongs to it goes into its `with` block.")
        _refuse_ending(sql)
        left = sql

        def look_ahead(_cursor: apsw.Cursor, statement: str, _values: Any) -> bool:
            # before the next one is prepared: some pragmas are done by then
            nonlocal left
            left = left[len(statement) :]
            _refuse_ending(left)
            return True

        cursor = self.db.cursor()
        cursor.exec_trace = look_ahead
        return cursor.execute(sql, values).fetchall()


def _refuse_ending(sql: str) -> None:
    first = _FIRST_WORD.match(sql)
    if first is not None and first[1].lower() in _OURS:
        raise BadInput(f"`{first[1]}` is not for use here: the transaction begins and ends with its `with` block.")
