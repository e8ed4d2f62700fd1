"""The end of the ledger as a stream: what Spark's Structured Streaming asks, twice a second, for new events.

An offset is a `seq`. Where a stream begins is told by whoever starts it, who has it from the lake; a checkpoint is
Spark's own note and decides nothing. `commit` does nothing: Spark never calls it for the last batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.schemas import EVENTS
from manydesks.pipeline.sources.ledger import VIEWS, WINDOW, Window, heads, read_view, windows
from manydesks.pipeline.sources.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = VIEWS["export_events"]

#: events of one batch at most: it goes through this process's memory
BATCH = 20_000


def tail(spark: SparkSession, path: Path, after: int, *, batch: int = BATCH, window: int = WINDOW) -> DataFrame:
    """The events above `after`, without end, in batches of at most so many; one Spark partition per window."""
    options = {"path": str(path), "after": str(after), "batch": str(batch), "window": str(window)}
    with in_one_sentence("Spark could not follow the ledger"):
        spark.dataSource.register(TailSource)
        return spark.readStream.format(TailSource.name()).options(**options).load()


class TailSource(DataSource):
    """Options: `path` of office.db, `after`, `batch`, `window`."""

    @classmethod
    def name(cls) -> str:
        return "manydesks_tail"

    def schema(self) -> StructType:
        return EVENTS.schema

    def streamReader(self, schema: StructType) -> TailReader:  # noqa: N802
        return TailReader(dict(self.options))


class TailReader(DataSourceStreamReader):
    """What Spark plans with lives in a process beside its Java, what reads in its workers; both hold only options."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"seq": int(self.options["after"])}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(int(self.options["batch"]))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The ledger has no gaps: so many rows are so many numbers."""
        head = heads(Path(self.options["path"])).events
        most = start["seq"] + limit.max_rows if isinstance(limit, ReadMaxRows) else head
        # a store that was put back ends earlier: an offset never goes back, and whoever archives says what is wrong
        return {"seq": max(min(head, most), start["seq"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return windows(start["seq"], end["seq"], int(self.options["window"]))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Window)
        yield from read_view(Path(self.options["path"]), VIEW, partition)
        settle()
