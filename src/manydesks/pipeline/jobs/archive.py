"""The archive: the ledger and its texts go into the lake, exactly once, in the order of their keys.

Where a run starts is read from the lake's own log, never from a checkpoint: a lost note repeats and skips nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import PipelineError
from manydesks.pipeline import tables
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.jobs import runs
from manydesks.pipeline.lock import HeldLake, hold
from manydesks.pipeline.quality import check_no_gap, check_same_ledger
from manydesks.pipeline.schemas import BODIES, EVENTS, TableSpec
from manydesks.pipeline.session import is_local
from manydesks.pipeline.sources.ledger import VIEWS, WINDOW, View, heads, read, windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: told at the start of a step and after every commit: the step, the keys done, the keys in all
Progress = Callable[[str, int, int], None]

#: keys per transaction: what a kill can cost, and how often progress is told
CHUNK = 10 * WINDOW


@dataclass(frozen=True, kw_only=True)
class Step:
    """One table's part of a run."""

    #: the table
    name: str
    #: rows added
    rows: int
    #: how long it took
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ArchiveReport:
    """What a run did. The lake covers every event up to `to_seq` and every body that those events name."""

    #: the lake covered this before the run
    from_seq: int
    #: the lake covers this now; the caller moves the store's archived mark here
    to_seq: int
    #: events added
    rows: int
    #: bodies added
    bodies: int
    #: how long it took, by the monotonic clock
    seconds: float
    #: what each table took, in the order of the work
    steps: tuple[Step, ...]


def archive(
    home_db: Path, lake: Path, spark: SparkSession, progress: Progress, clock: Clock | None = None
) -> ArchiveReport:
    """Brings the lake up to where the store ends at the start of this run.

    Running it twice changes nothing; killing it anywhere loses and repeats nothing. Raises `LakeBusy` while another run
    works, and `PipelineError` if there is no store, the ledger has a gap, the store is not this lake's, or the disk
    refuses.
    """
    clock = clock or SystemClock()
    if not is_local(spark):
        raise PipelineError(
            reason=f"the archive reads a SQLite file, which the machines of '{spark.sparkContext.master}' do not have;"
            " run it with a local master."
        )
    heads(home_db)  # a store that is not there must not leave an empty lake behind
    with hold(lake) as held, disk_refusals(lake):
        return _Run(home_db, held, spark, progress, clock).go()


class _Run:
    """One run under the lake's lock."""

    def __init__(self, db: Path, held: HeldLake, spark: SparkSession, progress: Progress, clock: Clock) -> None:
        self._db, self._held, self._spark, self._progress, self._clock = db, held, spark, progress, clock
        self._steps: list[Step] = []

    def go(self) -> ArchiveReport:
        started_at, started = self._clock.now(), self._clock.monotonic()
        for spec in (BODIES, EVENTS):
            tables.ensure(self._held, spec)
        from_seq = self._covered(EVENTS)

        def report() -> ArchiveReport:
            return ArchiveReport(
                from_seq=from_seq,
                to_seq=self._covered(EVENTS),
                rows=self._added(EVENTS),
                bodies=self._added(BODIES),
                seconds=(self._clock.monotonic() - started) / 1000,
                steps=tuple(self._steps),
            )

        try:
            with disk_refusals(self._held.folder):
                ends = heads(self._db)
                check_same_ledger(self._held.folder, self._db, from_seq, ends.events)
                # the texts first: once the lake covers an event, it has the body that the event names
                self._append(VIEWS["export_bodies"], ends.bodies)
                self._append(VIEWS["export_events"], ends.events)
        except PipelineError as error:
            with suppress(OSError):  # a disk that takes no rows takes no row about it either
                self._record(report(), started_at, failure=str(error))
            raise
        done = report()
        self._record(done, started_at)
        return done

    def _append(self, view: View, upto: int) -> None:
        spec, started, added = view.table, self._clock.monotonic(), 0
        begin = self._covered(spec)
        self._progress(spec.name, 0, max(upto - begin, 0))
        try:
            for chunk in windows(begin, upto, CHUNK):
                after, last = chunk.first - 1, chunk.last
                rows = read(self._spark, self._db, view, after, last)
                mark = tables.Mark(app=spec.name, version=last)
                check = partial(check_no_gap, after=after, upto=last) if spec is EVENTS else _anything
                added += tables.append_once(self._held, spec, rows, mark, self._clock, check)
                self._progress(spec.name, last - begin, upto - begin)
        finally:
            seconds = (self._clock.monotonic() - started) / 1000
            self._steps.append(Step(name=spec.name, rows=added, seconds=seconds))

    def _added(self, spec: TableSpec) -> int:
        return sum(step.rows for step in self._steps if step.name == spec.name)

    def _covered(self, spec: TableSpec) -> int:
        return tables.covered(self._held.folder, spec, spec.name)

    def _record(self, report: ArchiveReport, started_at: int, failure: str | None = None) -> None:
        runs.record(
            self._held,
            self._clock,
            job="archive",
            started_at=started_at,
            seconds=report.seconds,
            spark_version=pyspark.__version__,
            from_seq=report.from_seq,
            to_seq=report.to_seq,
            rows=report.rows,
            bodies=report.bodies,
            failure=failure,
        )


def _anything(written: Sequence[Path]) -> None:
    """The ids of bodies may have holes: a body is dropped with the last row that named it."""
