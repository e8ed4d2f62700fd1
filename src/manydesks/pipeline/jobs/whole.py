"""The whole run: bronze takes what is new of the ledger and of the mailboxes of all sessions, silver what is new of
bronze, gold what is new of silver; then gold is published for those who have no Spark.

Each table goes on from where it stands, so the first run, the tenth and the one after a crash are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.insight import FILE
from manydesks.pipeline.beginning import begins
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.jobs.archive import Archive, check_archive
from manydesks.pipeline.jobs.compact import tidy
from manydesks.pipeline.jobs.erase import erase
from manydesks.pipeline.jobs.gold import Gold
from manydesks.pipeline.jobs.runs import recorded
from manydesks.pipeline.jobs.sessions import Sessions
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.jobs.step import Ended, Progress, Step, unheard
from manydesks.pipeline.lock import HeldLake, hold
from manydesks.pipeline.place import Place
from manydesks.pipeline.publish import publish
from manydesks.pipeline.rebuilding import begin_rebuild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """What a run did. The lake covers every event up to `to_seq`, in every layer."""

    #: bronze covered this before the run
    from_seq: int
    #: it covers this now; the caller moves the store's archived mark here
    to_seq: int
    #: events added
    rows: int
    #: texts added
    bodies: int
    #: the first event that the lake was ever to hold; above 1: it lacks those before
    begins: int
    #: what each table took, in the order of the work
    steps: tuple[Step, ...]


def run(
    db: Path,
    lake: Place,
    spark: SparkSession,
    progress: Progress,
    clock: Clock | None = None,
    *,
    rebuild: bool = False,
    patience: float = 0.0,
    ended: Ended = unheard,
    incomplete: bool = False,
) -> RunReport:
    """Brings the whole lake up to where the store ends at the start of this run; raises as `archive` does.

    `rebuild`: silver and gold are made anew from all of bronze, and what it leaves of that by the next run.
    `patience`: seconds that a busy lake is waited for. `ended`: told what each step took, from the threads of the
    steps. `incomplete`: a lake without events may begin with the oldest one that the store still has.
    """
    clock = clock or SystemClock()
    check_archive(db, lake, incomplete=incomplete)
    job = "rebuild" if rebuild else "run"
    with (
        hold(lake, patience=patience) as held,
        disk_refusals(lake),
        recorded(held, clock, job) as note,
        in_one_sentence("Spark could not bring the lake up to date"),
    ):
        bronze = Archive(db, held, spark, progress, clock, incomplete=incomplete)
        try:
            bronze.go()
        finally:
            note(bronze.report())
        _tell(bronze.steps, ended)
        if rebuild:
            begin_rebuild(held, clock)
        mail = Sessions(db.parent, held, spark, progress, clock)
        mail.go()
        _tell(mail.steps, ended)
        steps = refresh(held, spark, progress, clock, ended=ended)
    done = bronze.report()
    return RunReport(
        from_seq=done.from_seq,
        to_seq=done.to_seq,
        rows=done.rows,
        bodies=done.bodies,
        begins=begins(lake),
        steps=(*done.steps, *mail.steps, *steps),
    )


def refresh(
    held: HeldLake,
    spark: SparkSession,
    progress: Progress,
    clock: Clock,
    *,
    ended: Ended = unheard,
) -> list[Step]:
    """All that follows from bronze, in its order, for `run` and for a round of `watch`; what each table took."""
    silver = Silver(held, spark, progress, clock, ended=ended)
    silver.refresh()
    gold = Gold(held, spark, progress, clock, ended=ended)
    gold.refresh()
    last = [_published(held, progress, clock)]
    # last: what silver was made of may be emptied only now
    begun = clock.monotonic()
    if texts := erase(held, spark, clock):
        seconds = (clock.monotonic() - begun) / 1000
        last.append(Step(name="forgotten", taken=texts, rows=texts, seconds=seconds))
    _tell(last, ended)
    tidy(held, clock)
    return [*silver.steps, *gold.steps, *last]


def _published(held: HeldLake, progress: Progress, clock: Clock) -> Step:
    begun = clock.monotonic()
    done = publish(held, clock, partial(progress, FILE))
    return Step(name=FILE, taken=done.rows, rows=done.rows, seconds=(clock.monotonic() - begun) / 1000)


def _tell(steps: Iterable[Step], ended: Ended) -> None:
    for step in steps:
        ended(step)
