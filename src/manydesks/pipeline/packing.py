"""Rows of Spark into a Parquet file of this machine, where the executors cannot write to it.

They come as Arrow batches, packed by the executors: no value becomes one of Python's, which has not all that Spark has.
An executor imports this module, and has nothing but pyspark, pyarrow and pandas.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_rows(frame: DataFrame, path: Path) -> int:
    """All rows in their order, a batch in memory at a time; how many. Raises what Spark raises, also for a type that
    Arrow does not have; the file may then be half written."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    # by number: Spark takes a dot in a name, as `select 1.5` has one, for the way into a struct
    numbered = frame.toDF(*map(str, range(len(frame.columns))))
    packed = numbered.mapInArrow(pack, "batch binary")
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for row in packed.toLocalIterator(prefetchPartitions=True):
            with pa.ipc.open_stream(row["batch"]) as stream:
                found = stream.read_all()
            named = found.rename_columns(schema.names).cast(schema)
            writer.write_table(named, row_group_size=max(found.num_rows, 1))
            rows += found.num_rows
    return rows


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one row that holds it."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})
