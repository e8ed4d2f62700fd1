"""Who asked for a change, when that has to stand in the ledger beside it: in the same transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from manydesks.store.ledger import OfficeTransaction

T = TypeVar("T")

#: set by a surface for what it is about to have done; the fields of `api_changed`
AUDIT: ContextVar[Mapping[str, Any] | None] = ContextVar("audit", default=None)


def audited(operation: Callable[[OfficeTransaction], T]) -> Callable[[OfficeTransaction], T]:
    """The operation; if somebody is to be named for it, and it changes something, with an event that says who."""
    said = AUDIT.get()
    if said is None:
        return operation

    def noted(tx: OfficeTransaction) -> T:
        changes, events = tx.db.total_changes(), tx.gathered
        result = operation(tx)
        if tx.db.total_changes() != changes or tx.gathered != events:
            tx.event("api_changed", **said)
        return result

    return noted
