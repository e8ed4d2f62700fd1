"""A copy of the store as it is at one moment, taken while somebody writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import apsw

from manydesks.domain.errors import StoreCorrupt
from manydesks.store.database import named_errors, open_reader
from manydesks.store.migrations import OFFICE
from manydesks.store.restored import LINEAGE
from manydesks.store.retention import PRUNED
from manydesks.store.schema import applied

#: pages that are copied before the next look at the clock; all of them are of one moment
STEP = 4096
MARK = "select seq from marks where name = ?"


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What is in the copy."""

    #: the migrations that it has seen
    schema: tuple[str, ...]
    #: its last event
    head: int
    #: events up to here have left the ledger
    pruned: int
    #: how the office was called since it was last put back from a backup; 0: it never was
    lineage: int


def copy_store(source: Path, target: Path) -> Copied:
    """Write a copy to `target`, which is not there yet, and look whether it is sound. Blocks; nobody waits for it.

    The source is only read, in one read transaction: what is committed meanwhile is not in the copy.
    """
    from_db = open_reader(source)
    try:
        with named_errors(source):
            OFFICE.refuse_foreign(from_db, str(source))
            OFFICE.refuse_newer(from_db, str(source))
            # the transaction is ours, and stays open: between two steps SQLite would otherwise begin anew
            from_db.execute("begin")
            from_db.execute("select count(*) from sqlite_schema").fetchall()
        with named_errors(target):
            to_db = apsw.Connection(str(target))
            try:
                with to_db.backup("main", from_db, "main") as copying:
                    while not copying.done:
                        copying.step(STEP)
            finally:
                to_db.close()
    finally:
        from_db.close()
    return look_at(target)


def look_at(path: Path) -> Copied:
    """What a copy holds. StoreCorrupt, StoreTooNew: it is none that this version could open."""
    db = open_reader(path)
    try:
        with named_errors(path):
            OFFICE.refuse_foreign(db, str(path))
            OFFICE.refuse_newer(db, str(path))
            schema = tuple(sorted(applied(db)))
            if not schema:
                raise StoreCorrupt(path=path, reason="it has no tables")
            for (finding,) in db.execute("pragma quick_check(1)").fetchall():
                if finding != "ok":
                    raise StoreCorrupt(path=path, reason=finding)
            ((head,),) = db.execute("select seq from ledger_head").fetchall()
            marks = [db.execute(MARK, (name,)).fetchall() for name in (PRUNED, LINEAGE)]
            pruned, lineage = (int(str(rows[0][0])) if rows else 0 for rows in marks)
    finally:
        db.close()
    return Copied(schema=schema, head=int(str(head)), pruned=pruned, lineage=lineage)
