"""Rows of the lake without Spark: of a few, the plan of a query takes longer than the reading.

Reads the files itself: a process that used `to_pyarrow_dataset` of delta-rs now and then aborts when it ends.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from manydesks.pipeline import tables
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.place import Place, readable
from manydesks.pipeline.tables import FEW, File, Range


def find(lake: Place, spec: TableSpec, column: str, value: int) -> list[dict[str, Any]]:
    """The rows with this value; only for a column of whole numbers, whose range each file's entry has."""
    found: list[dict[str, Any]] = rows(lake, spec, Range(column=column, least=value, most=value)).to_pylist()
    return found


def rows(lake: Place, spec: TableSpec, wanted: Range, *columns: str) -> pa.Table:
    """The rows in this range, with all columns or with these, of which the range's is one. For a range that holds a
    few: all of them lie in memory."""
    names = list(columns) or spec.schema.names
    parts = [_read(file, columns).filter(_lies_in(wanted)) for file in tables.snapshot(lake, spec, wanted)]
    if not parts:
        return pa.table({name: [] for name in names})
    return pa.concat_tables(parts, promote_options="default").select(names)


def few(lake: Place, spec: TableSpec, wanted: Range) -> bool:
    """Whether the files that may hold such rows hold only a few in all."""
    return tables.rows_of(tables.snapshot(lake, spec, wanted)) <= FEW


def days_with(lake: Place, spec: TableSpec, column: str, values: pa.Array) -> set[str]:
    """On which days of a table that is written by days a row has one of these values."""
    return {
        file.entry[f"min.{DAY}"]
        for file in tables.snapshot(lake, spec)
        if pc.any(pc.is_in(_read(file, (column,)).column(column), value_set=values)).as_py()
    }


def _read(file: File, columns: tuple[str, ...]) -> pa.Table:
    return pq.ParquetFile(readable(file.path)).read(columns=list(columns) or None)


def _lies_in(wanted: Range) -> pc.Expression:
    return (pc.field(wanted.column) >= wanted.least) & (pc.field(wanted.column) <= wanted.most)
