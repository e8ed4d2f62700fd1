"""A real office with its API for one scenario; beside it, if it is to be old, a million messages that have ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from benchmarks.office.offices import Watched, prepared
from manydesks.testing.api import SERVED

SERVING = Path(__file__).with_name("serving.py")
#: rows written at once
STEP = 50_000


class Served(Watched):
    """`manydesks up` with the route that does nothing."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, settings={**SERVED, **settings}, plain=True)
        self._command = (sys.executable, str(SERVING))
        self._environ = {**self._environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    @property
    def api_url(self) -> str:
        return self.url()


@contextmanager
def served(agents: list[str], *, completed: int = 0) -> Iterator[Served]:
    with prepared(agents) as folder:
        if completed:
            _grow_old(folder / "home" / "office.db", agents[0], completed)
        made = Served(folder)
        made.start()
        try:
            yield made
        finally:
            made.kill()


def _grow_old(path: Path, agent: str, count: int) -> None:
    """As many messages that were answered long ago: rows, as retention leaves them, counted."""
    db = apsw.Connection(str(path))
    try:
        db.execute("pragma synchronous = off")
        with db:
            db.execute(
                "insert into sessions (id, agent, conversation, thread, generation, mode, status, last_active, "
                "created_at) values ('session_old00000', ?, '', '', 0, 'agent', 'closed', 0, 0)",
                (agent,),
            )
            db.execute("insert into bodies (text) values ('long ago')")
            body = db.last_insert_rowid()
        for first in range(0, count, STEP):
            rows = [
                (f"old_{number:08}", "trace_old00000", "session_old00000", agent, agent, body)
                for number in range(first, min(first + STEP, count))
            ]
            with db:
                db.executemany(
                    "insert into messages (message_id, trace, session, queue, agent, body, state, channel, "
                    "platform_id, sender, created_at, updated_at) "
                    "values (?, ?, ?, ?, ?, ?, 3, 'console', 'terminal', 'ada', 0, 0)",
                    rows,
                )
        with db:
            db.execute(
                "insert into counters (scope, agent, state, n) values ('messages', ?, 3, ?) "
                "on conflict (scope, agent, state) do update set n = n + excluded.n",
                (agent, count),
            )
    finally:
        db.close()
