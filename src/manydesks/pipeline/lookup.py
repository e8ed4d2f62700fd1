"""Rows of the lake without Spark: of a few, the plan of a query takes longer than the reading.

Reads the files itself: a process that used `to_pyarrow_dataset` of delta-rs now and then aborts when it ends.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from manydesks.pipeline import tables
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.damage import reading
from manydesks.pipeline.place import Place
from manydesks.pipeline.tables import FEW, File, Range


def find(lake: Place, spec: TableSpec, column: str, value: int) -> list[dict[str, Any]]:
    """The rows with this value, each with the columns that its file has; only for a column of whole numbers, whose
    range each file's entry has."""
    wanted = Range(column=column, least=value, most=value)
    return [row for file in tables.snapshot(lake, spec, wanted) for row in _read(file, wanted).to_pylist()]


def rows(lake: Place, spec: TableSpec, wanted: Range, *columns: str) -> pa.Table:
    """These columns, of which the range's is one, of the rows in this range. For one that holds a few: all of them lie
    in memory."""
    schema = to_arrow_schema(StructType([spec.schema[name] for name in columns]))
    parts = [_read(file, wanted, columns) for file in tables.snapshot(lake, spec, wanted)]
    return pa.concat_tables([schema.empty_table(), *parts], promote_options="default").select(list(columns))


def few(lake: Place, spec: TableSpec, wanted: Range) -> bool:
    """Whether the files that may hold such rows hold only a few in all."""
    return tables.rows_of(tables.snapshot(lake, spec, wanted)) <= FEW


def days_with(lake: Place, spec: TableSpec, column: str, values: pa.Array) -> set[str]:
    """On which days of a table that is written by days a row has one of these values."""
    return {
        file.entry[f"min.{DAY}"]
        for file in tables.snapshot(lake, spec)
        if pc.any(pc.is_in(_columns(file, (column,)).column(column), value_set=values)).as_py()
    }


def _read(file: File, wanted: Range, columns: tuple[str, ...] = ()) -> pa.Table:
    lies_in = (pc.field(wanted.column) >= wanted.least) & (pc.field(wanted.column) <= wanted.most)
    return _columns(file, columns).filter(lies_in)


def _columns(file: File, columns: tuple[str, ...]) -> pa.Table:
    with reading(file.path) as source:
        return pq.ParquetFile(source).read(columns=list(columns) or None)
