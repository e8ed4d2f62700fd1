"""Keeping the lake small and quick: `compact` when somebody asks for it, `tidy` by every run as far as it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.clock import Clock, SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.jobs.runs import COMPACT, recorded
from manydesks.pipeline.jobs.step import Progress
from manydesks.pipeline.lock import PATIENCE_SECONDS, HeldLake, hold
from manydesks.pipeline.merging import bins, merge, newest, size
from manydesks.pipeline.place import Place
from manydesks.pipeline.quality import check_ledger
from manydesks.pipeline.vacuum import KEEP_HOURS, Freed, checkpoint, commits, trim_log, vacuum

HOUR_MS = 3_600_000
#: so many small files of one table, or of one of its days, are no burden
FEW_FILES = 32
#: so many entries of a table's log are kept, if they are younger than a week; those of the last hour are kept anyway
FEW_COMMITS = 500


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What was done to one table."""

    name: str
    #: in the newest snapshot, before and after
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    #: what went from the disk
    freed: Freed


def check_compact(lake: Place, db: Path) -> None:
    """Before anybody is asked or anything is made: the lake of another office stays as it is. Raises `LakeRefused`."""
    with disk_refusals(lake):
        # one without events has nothing of anybody's
        check_ledger(lake, db, incomplete=True)


def compact(
    lake: Place,
    progress: Progress,
    clock: Clock | None = None,
    *,
    db: Path | None = None,
    keep_hours: float | None = None,
) -> list[Compacted]:
    """Merges small files and shortens the way to the newest snapshot, table by table; the rows stay the same.

    `db`: the store that the lake must belong to; None: there is none to compare with. `keep_hours`: also removes the
    files that no snapshot of that long ago has. Needs no Spark. Raises `LakeBusy`, `LakeRefused` before anything is
    written or removed, and `PipelineError` if the disk refuses. Killed anywhere, it has done a part of its work and no
    harm.
    """
    clock = clock or SystemClock()
    if db is not None:
        check_compact(lake, db)
    with hold(lake, patience=PATIENCE_SECONDS) as held, disk_refusals(lake), recorded(held, clock, COMPACT):
        tables.sweep(held)
        specs = tables.present(lake)
        done = []
        for number, spec in enumerate(specs):
            progress("compact", number, len(specs))
            done.append(_compact(held, spec, clock, keep_hours))
        progress("compact", len(specs), len(specs))
        return done


def tidy(held: HeldLake, clock: Clock) -> None:
    """What a lake needs that is written to all the time: few files, a short log, and no heap of old versions.

    Snapshots of the last week stay readable, or of the last hour if there were many. It costs little when there is
    little to do.
    """
    for spec in tables.present(held.folder):
        folder = held.folder / spec.folder
        known = commits(folder)
        # a table of days gets no file without losing the old one of that day
        if not spec.by_day and len(known) > FEW_FILES:
            merge(held, spec, newest(spec, tables.snapshot(held.folder, spec), FEW_FILES), clock)
        oldest, latest = clock.now() - KEEP_HOURS * HOUR_MS, clock.now() - HOUR_MS
        aged = sum(moment <= latest for moment in known)
        # not again at every round while there are many of the last hour
        if len(known) > FEW_COMMITS and aged > FEW_COMMITS // 2:
            before = min(max(known[-FEW_COMMITS], oldest), latest)
            checkpoint(folder)
            vacuum(folder, tables.files(held.folder, spec), before)
            trim_log(folder, before)


def _compact(held: HeldLake, spec: TableSpec, clock: Clock, keep_hours: float | None) -> Compacted:
    folder = held.folder / spec.folder
    before = tables.snapshot(held.folder, spec)
    merge(held, spec, bins(spec, before), clock)
    checkpoint(folder)
    after = tables.snapshot(held.folder, spec)
    freed = Freed()
    if keep_hours is not None:
        moment = clock.now() - round(keep_hours * HOUR_MS)
        freed = vacuum(folder, [file.path for file in after], moment)
        trim_log(folder, moment)
    return Compacted(
        name=spec.name,
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(map(size, before)),
        bytes_after=sum(map(size, after)),
        freed=freed,
    )
