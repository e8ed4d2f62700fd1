"""Every table of the lake, once: its columns and where it lies.

Columns are added, never renamed; the type of a column never changes. Every `at` and `…_at` is milliseconds UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from manydesks.domain.errors import PipelineError


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One table of the lake."""

    #: the name people use in SQL; unique in the lake
    name: str
    #: where it lies, below the lake's folder
    folder: str
    #: its columns, in order
    schema: StructType


def _columns(**types: DataType) -> StructType:
    """Columns whose name ends in `_` may not be NULL; the underscore is not part of the name."""
    return StructType([StructField(name.rstrip("_"), kind, not name.endswith("_")) for name, kind in types.items()])


_LONG, _TEXT, _REAL, _FLAG = LongType(), StringType(), DoubleType(), BooleanType()

#: the ledger, exactly once by `seq`; `body` names a row of `bodies`, `data` is JSON by kind
EVENTS = TableSpec(
    name="events",
    folder="bronze/events",
    schema=_columns(
        seq_=_LONG,
        at_=_LONG,
        kind_=_TEXT,
        trace=_TEXT,
        parent=_TEXT,
        message=_TEXT,
        run=_TEXT,
        session=_TEXT,
        agent=_TEXT,
        body=_LONG,
        data=_TEXT,
    ),
)

#: the texts that events refer to; where `erased_at` is set the text is gone
BODIES = TableSpec(
    name="bodies",
    folder="bronze/bodies",
    schema=_columns(id_=_LONG, text=_TEXT, erased_at=_LONG),
)

#: one row per run of a job; `from_seq` is what the lake covered before it
PIPELINE_RUNS = TableSpec(
    name="pipeline_runs",
    folder="pipeline_runs",
    schema=_columns(
        job_=_TEXT,
        started_at_=_LONG,
        ended_at_=_LONG,
        seconds_=_REAL,
        ok_=_FLAG,
        reason=_TEXT,
        from_seq=_LONG,
        to_seq=_LONG,
        rows=_LONG,
        bodies=_LONG,
        spark_version=_TEXT,
    ),
)

TABLES: Mapping[str, TableSpec] = {spec.name: spec for spec in (EVENTS, BODIES, PIPELINE_RUNS)}


def check_schema(found: StructType, spec: TableSpec) -> None:
    """Raises `PipelineError` unless `found` has the columns of the table, by name, type and order."""
    want = [(column.name, column.dataType.simpleString()) for column in spec.schema.fields]
    have = [(column.name, column.dataType.simpleString()) for column in found.fields]
    if want != have:
        raise PipelineError(reason=f"rows for the table '{spec.name}' have the columns {have}; they must be {want}.")
