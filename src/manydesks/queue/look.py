"""Which queues a jobs file holds: read only, for people and tools that do not know it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from manydesks.domain.clock import SystemClock
from manydesks.queue import letters
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Job
from manydesks.queue.migrations import JOBS_FILE
from manydesks.queue.state import state_of
from manydesks.store.database import named_errors, open_reader


class Glance:
    """A queue of a file that cannot be written: what stands there, timers and leases that are over included as they
    stood when somebody last looked after them."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._path = path
        self._db = open_reader(path)
        steady = SystemClock().now()
        self._tx = JobsTransaction(self._db, now=steady, mono=0, steady=steady, boot="")
        self._tx.swept_timers = self._tx.swept_leases = True

    def stats(self) -> dict[str, int]:
        with named_errors(self._path):
            return letters.stats(self._tx, self.name)

    def dead_letters(self) -> list[Job]:
        with named_errors(self._path):
            return letters.dead_letters(self._tx, self.name, after=0, limit=1000)

    def list(self, status: str | None = None, *, after: int = 0, limit: int = 100) -> list[Job]:
        with named_errors(self._path):
            return letters.listed(self._tx, self.name, state_of(status), after=after, limit=limit)

    def show(self, id: int) -> Job:
        with named_errors(self._path):
            return letters.show(self._tx, self.name, id)

    def __enter__(self) -> Glance:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()


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
