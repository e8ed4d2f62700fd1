"""The archive of a small step, whose events are in this process's memory already."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.domain.clock import Clock
from manydesks.pipeline import tables
from manydesks.pipeline.jobs.archive import Archive
from manydesks.pipeline.jobs.step import Progress
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place, writable
from manydesks.pipeline.schemas import EVENTS
from manydesks.pipeline.sources.ledger import WINDOW, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Tail(Archive):
    """Takes a batch of events that a stream has read, as far as the lake does not have it, and the texts before it.

    What the lake lacks below the batch is read from the ledger: whatever was committed meanwhile, by whomever, and
    whatever was not, no event comes twice and none is left out.
    """

    def __init__(
        self, db: Path, held: HeldLake, spark: SparkSession, progress: Progress, clock: Clock, batch: pa.Table | None
    ) -> None:
        """`batch`: None, or events in any order without a gap; with none, all that the ledger has is taken."""
        super().__init__(db, held, spark, progress, clock)
        self._batch = None if batch is None or not batch.num_rows else batch.sort_by("seq")

    def _append(self, view: View, upto: int) -> None:
        if view.table is EVENTS and self._batch is not None:
            upto = min(upto, self._batch["seq"][-1].as_py())
        super()._append(view, upto)

    def _append_chunk(self, view: View, after: int, upto: int, mark: tables.Mark, check: tables.Check) -> int:
        batch = self._batch if view.table is EVENTS else None
        if batch is None or upto - after > WINDOW or batch["seq"][0].as_py() > after + 1:
            return super()._append_chunk(view, after, upto, mark, check)
        write = partial(_write, batch.filter(pc.greater(batch["seq"], after)))
        return tables.append_files_once(self._held, view.table, write, mark, self._clock, check)


def _write(rows: pa.Table, folder: Place) -> None:
    with writable(folder / "part-00000.zstd.parquet") as file:
        pq.write_table(rows.cast(to_arrow_schema(EVENTS.schema)), file, compression="zstd")
