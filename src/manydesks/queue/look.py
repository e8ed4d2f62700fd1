"""Which queues a jobs file holds: read only, for people and tools that do not know it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from manydesks.queue.migrations import JOBS_FILE
from manydesks.store.database import named_errors, open_reader


class Known(NamedTuple):
    name: str
    paused: bool
    max_attempts: int


def queues_of(path: str | os.PathLike[str]) -> list[Known]:
    """In the order of their names. Raises as opening the file would."""
    file = Path(path)
    db = open_reader(file)
    try:
        with named_errors(file):
            JOBS_FILE.refuse_foreign(db, str(file))
            JOBS_FILE.refuse_newer(db, str(file))
            JOBS_FILE.refuse_older(db, str(file))
            rows = db.execute("select name, paused, max_attempts from queues order by name").fetchall()
    finally:
        db.close()
    return [Known(str(name), bool(paused), int(attempts)) for name, paused, attempts in rows]  # type: ignore[arg-type]
