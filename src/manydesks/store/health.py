"""How the store's file is, for a check-up: read-only, and bounded in time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import apsw

from manydesks.domain.errors import StoreCorrupt
from manydesks.store.database import named_errors, open_reader

#: of virtual machine steps, between two looks at the time
STEPS = 100_000


@dataclass(frozen=True, kw_only=True)
class Health:
    """What was seen."""

    #: the file itself, and what waits beside it to be moved into it
    bytes: int
    log_bytes: int
    #: False: the time was over before every page was looked at
    whole: bool


def examine(path: Path, *, seconds: float) -> Health:
    """Look at every page. Raises StoreCorrupt with what is wrong, StoreError if there is no store."""
    db = open_reader(path)
    until = time.monotonic() + seconds
    try:
        db.set_progress_handler(lambda: time.monotonic() > until, STEPS)
        with named_errors(path):
            try:
                said = [str(row[0]) for row in db.execute("pragma quick_check(3)").fetchall()]
                whole = True
            except apsw.InterruptError:
                said, whole = ["ok"], False
    finally:
        db.close()
    if said != ["ok"]:
        raise StoreCorrupt(path=path, reason="; ".join(said)[:500])
    return Health(bytes=path.stat().st_size, log_bytes=_size(path.with_name(f"{path.name}-wal")), whole=whole)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
