"""The store's views as Parquet files: one for each window, in the order of the key.

Arrow batches go from SQLite into a file without ever being rows of Java, which takes half the time. Spark's workers
write many windows, one task each; this process writes a few rows, or for a cluster, whose machines do not have the
store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.place import Place, writable
from manydesks.pipeline.session import reads_files_here
from manydesks.pipeline.sources.ledger import VIEWS, View, Window, read_view, windows
from manydesks.pipeline.sources.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: a row group is held in memory until it is written
GROUP_BYTES = 32 * 1024 * 1024


def write_view(path: Path, view: View, after: int, upto: int, folder: Place) -> None:
    """Writes the rows `after < key <= upto` into `folder`; memory holds one row group."""
    with _store_refusals(path):
        for window in enumerate(windows(after, upto)):
            _write(path, view.name, folder, window)


def share_view(spark: SparkSession, path: Path, view: View, after: int, upto: int, folder: Place) -> None:
    """The same by Spark's workers, if they have the store and there is enough for more than one of them."""
    cut = list(enumerate(windows(after, upto)))
    if len(cut) < 2 or not reads_files_here(spark):
        write_view(path, view, after, upto, folder)
        return
    with in_one_sentence(f"Spark could not read the store {path}"):
        spark.sparkContext.parallelize(cut, len(cut)).foreach(partial(_write_in_worker, path, view.name, folder))


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


def _write_in_worker(path: Path, name: str, folder: Place, numbered: tuple[int, Window]) -> None:
    _write(path, name, folder, numbered)
    settle()


def _write(path: Path, name: str, folder: Place, numbered: tuple[int, Window]) -> None:
    """A task that is tried again writes the same file anew."""
    number, window = numbered
    view = VIEWS[name]
    schema = to_arrow_schema(view.table.schema)
    with (
        writable(folder / f"part-{number:05d}.zstd.parquet") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for group in _groups(path, view, window):
            writer.write_table(group, row_group_size=max(group.num_rows, 1))


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
