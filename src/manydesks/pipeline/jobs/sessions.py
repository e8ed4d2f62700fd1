"""The mailboxes of all sessions go into the lake, each row exactly once.

A file that did not change since it was last read is not opened. What was taken is counted by the lake's own tables, so
a run that was killed anywhere loses and repeats nothing. A session whose folder was removed keeps its rows.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.domain.clock import Clock
from manydesks.pipeline import session_files, tables
from manydesks.pipeline.bronze import QUARANTINE, SESSION_FILES, SESSIONS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.jobs.step import Progress, Step
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place, writable
from manydesks.pipeline.session import reads_files_here
from manydesks.pipeline.session_files import MARK, Found, Known
from manydesks.pipeline.sources import sessions as source
from manydesks.pipeline.sources.mailbox import Part, Seen
from manydesks.pipeline.sources.sessions import OPEN_BYTES, Piece, cut, pack
from manydesks.pipeline.sources.staged import count_rows, how_it_went, write_rows, write_staged
from manydesks.pipeline.tables import Mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: so few bytes, opening included, are read quicker than a job of Spark is begun
HERE_BYTES = 4 << 20

#: in the order in which they are written: what counts the rest comes last
TABLES = (*SESSIONS, QUARANTINE, SESSION_FILES)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One reading: what is to be looked into, and where its rows lie meanwhile."""

    #: its number
    batch: int
    #: the files that changed, by their paths
    news: Mapping[str, Found]
    folder: Path

    @property
    def staged(self) -> Path:
        return self.folder / "staged"

    @property
    def links(self) -> Path:
        return self.folder / "links"


class Sessions:
    """One reading of all mailboxes under the lake's lock."""

    def __init__(self, home: Path, held: HeldLake, spark: SparkSession, progress: Progress, clock: Clock) -> None:
        """`home`: the folder in which `sessions` lies, and `run` for what is short-lived."""
        self._home, self._held, self._spark, self._progress, self._clock = home, held, spark, progress, clock
        self._lake = held.folder
        self.steps: list[Step] = []

    def go(self) -> None:
        """Running it twice changes nothing; killing it anywhere loses and repeats nothing."""
        begun = self._clock.monotonic()
        for spec in TABLES:
            tables.ensure(self._held, spec)
        files = session_files.known(self._lake)
        there = {one.path: one for one in session_files.found(self._home / session_files.FOLDER, self._clock.now())}
        news = {path: one for path, one in there.items() if path not in files or files[path].is_news(one)}
        self._progress(SESSION_FILES.name, 0, len(news))
        rows = dict.fromkeys((spec.name for spec in TABLES), 0)
        if news:
            last = max(tables.covered(self._lake, spec, MARK) for spec in TABLES)
            with self._scratch() as folder:
                self._take(_Work(batch=last + 1, news=news, folder=folder), files, rows)
        self._progress(SESSION_FILES.name, len(news), len(news))
        seconds = (self._clock.monotonic() - begun) / 1000
        self.steps.append(Step(name=SESSION_FILES.name, taken=len(there), rows=len(news), seconds=seconds))
        for spec in (*SESSIONS, QUARANTINE):
            found = rows[spec.name]
            self.steps.append(Step(name=spec.name, taken=found, rows=found, seconds=0.0))

    def _take(self, work: _Work, files: dict[str, Known], rows: dict[str, int]) -> None:
        pieces = [piece for found in work.news.values() for piece in self._pieces(found, files, work.links)]
        self._stage(work, pieces)
        now = self._clock.now()
        went = how_it_went(work.staged)
        refused = []
        for path, found in work.news.items():
            old = _known(files, found)
            files[path] = file = old.after(found, went[path], now)
            if went[path].reason is not None and (old.reason, old.state) != (file.reason, file.state):
                refused.append(_quarantined(found, went[path], now, work.batch))
        for spec in SESSIONS:
            if count_rows(work.staged, spec):
                rows[spec.name] = self._append(spec, partial(write_rows, work.staged, spec, work.batch, went), work)
                session_files.taken(self._lake, spec, work.batch - 1, files)
        if refused:
            rows[QUARANTINE.name] = self._append(QUARANTINE, partial(_write, QUARANTINE, refused), work)
        # a table that rarely has rows must not make the next run read all the others again
        files |= {path: files[path].level() for path in work.news if went[path].outcome == "read"}
        known = partial(_write, SESSION_FILES, [files[path].row for path in sorted(files)])
        tables.replace_all_files(self._held, SESSION_FILES, known, self._mark(work), self._clock)

    def _pieces(self, found: Found, files: Mapping[str, Known], links: Path) -> list[Piece]:
        part = Part(side=found.side, cursor=_known(files, found).cursor)
        whole = Piece(path=found.path, agent=found.agent, session=found.session, part=part, size=found.size)
        return cut(whole, self._home / session_files.FOLDER, links)

    def _stage(self, work: _Work, pieces: Sequence[Piece]) -> None:
        """The rows lie beside the lake before they are sorted out: what went wrong where has to be known by then."""
        sessions = self._home / session_files.FOLDER
        few = sum(piece.size + OPEN_BYTES for piece in pieces) <= HERE_BYTES
        # the machines of a cluster do not have the mailboxes
        if few or not reads_files_here(self._spark):
            write_staged(work.staged, source.read_pieces(sessions, work.links, pieces, f"here-{os.getpid()}"))
            return
        plan = work.folder / "plan.json"
        source.write_plan(plan, pack(pieces))
        rows = source.read(self._spark, sessions, work.links, plan)
        with in_one_sentence("Spark could not read the mailboxes"):
            rows.write.parquet(str(work.staged))

    def _append(self, spec: TableSpec, write: Callable[[Any], None], work: _Work) -> int:
        return tables.append_files_once(self._held, spec, write, self._mark(work), self._clock, _anything)

    def _mark(self, work: _Work) -> Mark:
        return Mark(app=MARK, version=work.batch)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A private folder, one for each lake, which is this run's alone; what a killed one left in it goes first."""
        name = hashlib.sha256(str(self._lake).encode()).hexdigest()[:12]
        folder = self._home / "run" / f"sessions-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "links").mkdir(parents=True, mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _known(files: Mapping[str, Known], found: Found) -> Known:
    return files.get(found.path) or Known(agent=found.agent, session=found.session, side=found.side)


def _quarantined(found: Found, seen: Seen, now: int, batch: int) -> dict[str, Any]:
    return {
        "path": found.path,
        "agent": found.agent,
        "session": found.session,
        "reason": seen.reason,
        "at": now,
        "size": found.size,
        "state": found.state,
        "batch": batch,
    }


def _write(spec: TableSpec, rows: Sequence[Mapping[str, Any]], folder: Place) -> None:
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=to_arrow_schema(spec.schema))
    with writable(folder / "part-00000.zstd.parquet") as file:
        pq.write_table(table, file, compression="zstd")


def _anything(written: Sequence[Place]) -> None:
    """Numbers of a mailbox have holes: what was forgotten leaves some, and so does every write of a desk."""
