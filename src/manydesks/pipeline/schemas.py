"""Every table of the lake, by its name.

Columns are added, never renamed; the type of a column never changes. Every `at` and `…_at` is milliseconds UTC.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.silver import SILVER

__all__ = ["BODIES", "EVENTS", "PIPELINE_RUNS", "TABLES", "TableSpec", "check_schema"]

TABLES: Mapping[str, TableSpec] = {spec.name: spec for spec in (EVENTS, BODIES, *SILVER, *GOLD, PIPELINE_RUNS)}


def check_schema(found: StructType, spec: TableSpec) -> None:
    """Raises `PipelineError` unless `found` has the columns of the table, by name, type and order."""
    want = [(column.name, column.dataType.simpleString()) for column in spec.schema.fields]
    have = [(column.name, column.dataType.simpleString()) for column in found.fields]
    if want != have:
        raise PipelineError(reason=f"rows for the table '{spec.name}' have the columns {have}; they must be {want}.")
