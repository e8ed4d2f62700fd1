"""The table of runs: what the pipeline did and when. It is in the lake and not in the ledger, because a run must not
make work for the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from manydesks.domain.clock import Clock
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.schemas import PIPELINE_RUNS
from manydesks.pipeline.tables import append_row, exists, files


def latest(lake: Path) -> dict[str, Any] | None:
    """The run that ended last; None if there was none."""
    if not exists(lake, PIPELINE_RUNS):
        return None
    rows = [row for path in files(lake, PIPELINE_RUNS) for row in pq.ParquetFile(path).read().to_pylist()]
    return max(rows, key=lambda row: row["ended_at"], default=None)


def record(
    held: HeldLake,
    clock: Clock,
    *,
    job: str,
    started_at: int,
    seconds: float,
    spark_version: str,
    from_seq: int,
    to_seq: int,
    rows: int,
    bodies: int,
    failure: str | None = None,
) -> None:
    """Adds one run. A run that was killed leaves no row: nobody was there to write it."""
    append_row(
        held,
        PIPELINE_RUNS,
        {
            "job": job,
            "started_at": started_at,
            "ended_at": clock.now(),
            "seconds": seconds,
            "ok": failure is None,
            "reason": failure,
            "from_seq": from_seq,
            "to_seq": to_seq,
            "rows": rows,
            "bodies": bodies,
            "spark_version": spark_version,
        },
        clock,
    )
