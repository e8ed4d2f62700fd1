"""Who asked for a change, when that has to stand in the ledger beside it: in the same transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from manydesks.store.ledger import OfficeTransaction

T = TypeVar("T")


@dataclass
class Audit:
    """One request that may change something."""

    method: str
    path: str
    #: of whoever asked
    address: str
    #: the ledger has it
    told: bool = False


#: set by a surface for what it is about to have done
AUDIT: ContextVar[Audit | None] = ContextVar("audit", default=None)


def audited(operation: Callable[[OfficeTransaction], T]) -> Callable[[OfficeTransaction], T]:
    """The operation; if somebody is to be named for it, and it changes something, with an event that says who."""
    said = AUDIT.get()
    if said is None:
        return operation

    def noted(tx: OfficeTransaction) -> T:
        before = tx.moves
        result = operation(tx)
        if tx.moves != before:
            tell(tx, said)
        return result

    return noted


def tell(tx: OfficeTransaction, said: Audit) -> None:
    """Into the ledger. Also for a change that is no row's, but a file's."""
    tx.event("api_changed", method=said.method, path=said.path, address=said.address)
    said.told = True
