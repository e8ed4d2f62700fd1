"""The table of runs: what the pipeline did and when. It is in the lake and not in the ledger, because a run must not
make work for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pyarrow.parquet as pq
import pyspark

from manydesks.domain.clock import Clock
from manydesks.domain.errors import LakeRefused, PipelineError
from manydesks.pipeline.damage import reading
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place
from manydesks.pipeline.schemas import PIPELINE_RUNS
from manydesks.pipeline.tables import append_row, exists, files

#: the job that brings nothing new
COMPACT = "compact"


def latest(lake: Place) -> dict[str, Any] | None:
    """The run that ended last, but for those that only tidied up; None if there was none."""
    if not exists(lake, PIPELINE_RUNS):
        return None
    rows: list[dict[str, Any]] = []
    for path in files(lake, PIPELINE_RUNS):
        with reading(path) as source:
            rows += pq.ParquetFile(source).read().to_pylist()
    return max((row for row in rows if row["job"] != COMPACT), key=lambda row: row["ended_at"], default=None)


class Done(Protocol):
    """What a job has done, as far as it has come."""

    @property
    def from_seq(self) -> int: ...
    @property
    def to_seq(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bodies(self) -> int: ...


@contextmanager
def recorded(held: HeldLake, clock: Clock, job: str) -> Iterator[Callable[[Done], None]]:
    """Adds a row about the job when it ends, well or not; it is told what was done.

    A job that was killed leaves no row: nobody was there to write it. Nor does one that the lake is not for.
    """
    started_at, started = clock.now(), clock.monotonic()
    done: list[Done] = []

    def write(failure: str | None) -> None:
        last = done[-1] if done else None
        append_row(
            held,
            PIPELINE_RUNS,
            {
                "job": job,
                "started_at": started_at,
                "ended_at": clock.now(),
                "seconds": (clock.monotonic() - started) / 1000,
                "ok": failure is None,
                "reason": failure,
                "from_seq": last and last.from_seq,
                "to_seq": last and last.to_seq,
                "rows": last and last.rows,
                "bodies": last and last.bodies,
                "spark_version": pyspark.__version__,
            },
            clock,
        )

    try:
        yield done.append
    except LakeRefused:
        raise
    except PipelineError as error:
        with suppress(OSError):  # a disk that takes no rows takes no row about it either
            write(str(error))
        raise
    write(None)
