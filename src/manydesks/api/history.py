"""Which history the ledger tells: an office that was put back from a backup gives numbers for a second time.

A number alone does not say of which history it is, so a reader may say which one it has followed.
"""

from __future__ import annotations

from manydesks.domain.errors import LedgerPruned
from manydesks.store.reader import Reader

#: on answers that have events
HEADER = "X-Manydesks-History"
#: as an office calls its own that was never put back; the others are numbers in hexadecimal digits, which are not 0
FIRST = "0"
#: an office is not put back more often
MOST = 10_000


def history_of(reader: Reader) -> str:
    """The one that the ledger tells from now on."""
    return reader.lineage() or FIRST


def check_history(reader: Reader, followed: str, place: int) -> None:
    """Raises `LedgerPruned` if somebody who has followed that history up to `place` has read what never happened here.

    Reads the whole ledger, if it is another one than this office's.
    """
    if followed == history_of(reader):
        return
    shared, first = _shared(reader, followed), reader.first()
    if shared is None:
        raise LedgerPruned(
            "The office was put back from a backup, and where its history parts from the one that was followed is not "
            f"known any more: read it from event {first}, the first that is kept.",
            first=first,
        )
    if place > shared:
        raise LedgerPruned(
            f"The office was put back from a backup that ends with event {shared}: what was followed after it is "
            f"another history. Read on from event {max(shared + 1, first)}.",
            first=max(shared + 1, first),
        )


def _shared(reader: Reader, followed: str) -> int | None:
    """The last event that this history has in common with that one, out of which it came; None: not known."""
    events = reader.events(reader.first() - 1, MOST, ("office_restored",))
    restored = {event["data"]["lineage"]: event["data"] for event in events}
    mine, shared = history_of(reader), None
    while mine != followed:
        # each once: the last of them was there before any other
        if (made := restored.pop(mine, None)) is None:
            return None
        mine, shared = made["before"] or FIRST, int(made["backup_seq"])
    return shared
