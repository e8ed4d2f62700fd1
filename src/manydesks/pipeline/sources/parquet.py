"""The store's views as Parquet files, written by this process: for a cluster, whose machines do not have the store.

The files are as Spark writes them from `ledger.read`: one for each window, in the order of the key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.place import Place, writable
from manydesks.pipeline.sources.ledger import View, Window, read_view, windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: a row group is held in memory until it is written
GROUP_BYTES = 32 * 1024 * 1024


def write_view(path: Path, view: View, after: int, upto: int, folder: Place) -> None:
    """Writes the rows `after < key <= upto` into `folder`; memory holds one row group."""
    schema = to_arrow_schema(view.table.schema)
    for number, window in enumerate(windows(after, upto)):
        with (
            _store_refusals(path),
            writable(folder / f"part-{number:05d}.zstd.parquet") as file,
            pq.ParquetWriter(file, schema, compression="zstd") as writer,
        ):
            for group in _groups(path, view, window):
                writer.write_table(group, row_group_size=max(group.num_rows, 1))


def load_view(spark: SparkSession, path: Path, view: View, after: int, upto: int) -> DataFrame:
    """The same rows as a frame, sent to the executors from here; memory holds all of them."""
    schema = to_arrow_schema(view.table.schema)
    with _store_refusals(path):
        batches = [batch for window in windows(after, upto) for batch in read_view(path, view, window)]
    return spark.createDataFrame(pa.Table.from_batches(batches, schema), view.table.schema)


@contextmanager
def _store_refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise PipelineError(reason=f"the store {path} cannot be read ({error}).") from error


def _groups(path: Path, view: View, window: Window) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in read_view(path, view, window):
        waiting.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
