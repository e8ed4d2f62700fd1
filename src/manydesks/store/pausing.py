"""The office as a whole, paused: a mark in the store, so it lasts over restarts until somebody resumes it."""

from __future__ import annotations

from manydesks.store.ledger import OfficeTransaction
from manydesks.store.waits import may_begin

#: its name among the marks; 1: paused
PAUSED = "paused"

_SET = "insert into marks (name, seq) values (?, ?) on conflict (name) do update set seq = excluded.seq"


def is_paused(tx: OfficeTransaction) -> bool:
    row = tx.one("select seq from marks where name = ?", (PAUSED,))
    return row is not None and row[0] == 1


def pause_office(tx: OfficeTransaction, *, actor: str = "owner") -> bool:
    """No agent begins another run; what runs goes on, and what comes waits. False: it was paused before."""
    return _set(tx, True, "office_paused", actor)


def resume_office(tx: OfficeTransaction, *, actor: str = "owner") -> bool:
    """Runs begin again; an agent that is paused by itself stays so. False: it was not paused."""
    resumed = _set(tx, False, "office_resumed", actor)
    if resumed:
        may_begin(tx)
    return resumed


def _set(tx: OfficeTransaction, paused: bool, kind: str, actor: str) -> bool:
    if is_paused(tx) == paused:
        return False
    tx.run(_SET, (PAUSED, int(paused)))
    tx.event(kind, actor=actor)
    return True
