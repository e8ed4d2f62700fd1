"""The archive: the ledger and its texts go into the lake, exactly once, in the order of their keys.

Where a run starts is read from the lake's own log, never from a checkpoint: a lost note repeats and skips nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.clock import Clock, SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.beginning import begin
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.jobs.runs import recorded
from manydesks.pipeline.jobs.step import Progress, Step
from manydesks.pipeline.lock import HeldLake, hold
from manydesks.pipeline.place import Place
from manydesks.pipeline.quality import check_ledger, check_no_gap
from manydesks.pipeline.schemas import BODIES, EVENTS, TableSpec
from manydesks.pipeline.sources.ledger import VIEWS, WINDOW, View, heads, oldest, windows
from manydesks.pipeline.sources.parquet import share_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: keys per transaction: what a kill can cost, and how often progress is told
CHUNK = 10 * WINDOW


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
    home_db: Path, lake: Place, spark: SparkSession, progress: Progress, clock: Clock | None = None
) -> ArchiveReport:
    """Brings bronze up to where the store ends at the start of this run.

    Running it twice changes nothing; killing it anywhere loses and repeats nothing. Raises `LakeBusy` while another run
    works, `LakeRefused` before anything is written if the store is not this lake's or does not go on where it ends, and
    `PipelineError` if there is no store, the ledger has a gap, or the disk refuses.
    """
    check_archive(home_db, lake)
    with hold(lake) as held, disk_refusals(lake), recorded(held, clock or SystemClock(), "archive") as note:
        work = Archive(home_db, held, spark, progress, clock or SystemClock())
        try:
            work.go()
        finally:
            note(work.report())
    return work.report()


def check_archive(db: Path, lake: Place, *, incomplete: bool = False) -> None:
    """Before anything is made: a store that is not there must not leave an empty lake behind, and the lake of a newer
    version or of another office stays as it is. `incomplete`: a lake may begin later than the ledger did."""
    heads(db)
    with disk_refusals(lake):
        tables.check_known(lake)
        check_ledger(lake, db, incomplete=incomplete)


class Archive:
    """One run under the lake's lock."""

    def __init__(
        self,
        db: Path,
        held: HeldLake,
        spark: SparkSession,
        progress: Progress,
        clock: Clock,
        *,
        incomplete: bool = False,
    ) -> None:
        """`incomplete`: a lake without events may begin with the oldest one that the store still has."""
        self._incomplete = incomplete
        self._db, self._held, self._spark, self._progress, self._clock = db, held, spark, progress, clock
        self._started = clock.monotonic()
        self._from_seq = 0
        self.steps: list[Step] = []

    def go(self) -> None:
        self._from_seq = self._covered(EVENTS)
        with disk_refusals(self._held.folder):
            # once more, now that nobody else writes; and before anything is written
            check_ledger(self._held.folder, self._db, incomplete=self._incomplete)
            for spec in (BODIES, EVENTS):
                tables.ensure(self._held, spec)
            first = oldest(self._db)
            if self._incomplete and not self._from_seq and first > 1:
                begin(self._held, first, self._clock)
                self._from_seq = first - 1
            ends = heads(self._db)
            # the texts first: once the lake covers an event, it has the body that the event names
            self._append(VIEWS["export_bodies"], ends.bodies)
            self._append(VIEWS["export_events"], ends.events)

    def report(self) -> ArchiveReport:
        """As far as it has come."""
        return ArchiveReport(
            from_seq=self._from_seq,
            to_seq=self._covered(EVENTS),
            rows=self._added(EVENTS),
            bodies=self._added(BODIES),
            seconds=(self._clock.monotonic() - self._started) / 1000,
            steps=tuple(self.steps),
        )

    def _append(self, view: View, upto: int) -> None:
        spec, started, added = view.table, self._clock.monotonic(), 0
        begin = self._covered(spec)
        self._progress(spec.name, 0, max(upto - begin, 0))
        try:
            for chunk in windows(begin, upto, CHUNK):
                after, last = chunk.first - 1, chunk.last
                mark = tables.Mark(app=spec.name, version=last)
                check = partial(check_no_gap, after=after, upto=last) if spec is EVENTS else _anything
                added += self._append_chunk(view, after, last, mark, check)
                self._progress(spec.name, last - begin, upto - begin)
        finally:
            seconds = (self._clock.monotonic() - started) / 1000
            self.steps.append(Step(name=spec.name, taken=added, rows=added, seconds=seconds))

    def _append_chunk(self, view: View, after: int, upto: int, mark: tables.Mark, check: tables.Check) -> int:
        write = partial(share_view, self._spark, self._db, view, after, upto)
        return tables.append_files_once(self._held, view.table, write, mark, self._clock, check)

    def _added(self, spec: TableSpec) -> int:
        return sum(step.rows for step in self.steps if step.name == spec.name)

    def _covered(self, spec: TableSpec) -> int:
        return tables.covered(self._held.folder, spec, spec.name)


def _anything(written: Sequence[Place]) -> None:
    """The ids of bodies may have holes: a body is dropped with the last row that named it."""
