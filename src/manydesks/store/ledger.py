"""The office's ledger: what happened, in the transaction in which it happened."""

from __future__ import annotations

import json
from typing import Any

from manydesks.domain.event import KINDS
from manydesks.domain.ids import new_id
from manydesks.store.transaction import Transaction

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class OfficeTransaction(Transaction):
    """A transaction of office.db."""

    __slots__ = ()

    INSERT_EVENT = """
    insert into events (seq, at, kind, trace, parent, message, run, session, agent, body, data)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """

    def fresh_id(self, prefix: str, table: str, column: str = "id") -> str:
        """A public id that is not taken."""
        while True:
            candidate = new_id(prefix)
            if self.one(f"select 1 from {table} where {column} = ?", (candidate,)) is None:
                return candidate

    def body(self, text: str) -> int:
        self._cursor.execute("insert into bodies (text) values (?)", (text,))
        return self.db.last_insert_rowid()

    def past(self, at: int, text: str | None, row: tuple[Any, ...]) -> None:
        """Add an event that happened at another moment: its columns from `kind` to `agent`, and its data as JSON.

        For a history that is made up or brought from elsewhere, in bulk; nothing is checked.
        """
        *about, data = row
        self._events.append((at, *about, self.body(text) if text is not None else None, data))

    def event(
        self,
        kind: str,
        /,
        *,
        trace: str | None = None,
        parent: str | None = None,
        message: str | None = None,
        run: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        body: int | None = None,
        **data: Any,
    ) -> None:
        """Add to the ledger; it is there if, and only if, the rest of the transaction is."""
        if not data.keys() <= KINDS[kind].fields:
            raise ValueError(f"{kind} has no field {sorted(data.keys() - KINDS[kind].fields)}")
        self._events.append((self.now, kind, trace, parent, message, run, session, agent, body, _dumps(data)))
