"""Every table of the lake, by its name.

Columns are added, never renamed; the type of a column never changes. Every `at` and `…_at` is milliseconds UTC.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS, QUARANTINE, SESSION_FILES, SESSIONS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.silver import SILVER, TRACES

__all__ = ["BODIES", "BRONZE", "EVENTS", "PIPELINE_RUNS", "TABLES", "TableSpec", "check_schema", "making_of"]

BRONZE = (EVENTS, BODIES, *SESSIONS, QUARANTINE, SESSION_FILES)

TABLES: Mapping[str, TableSpec] = {spec.name: spec for spec in (*BRONZE, *SILVER, *GOLD, PIPELINE_RUNS)}


def check_schema(found: StructType, spec: TableSpec) -> None:
    """Raises `PipelineError` unless `found` has the columns of the table, by name, type and order."""
    want = [(column.name, column.dataType.simpleString()) for column in spec.schema.fields]
    have = [(column.name, column.dataType.simpleString()) for column in found.fields]
    if want != have:
        raise PipelineError(reason=f"rows for the table '{spec.name}' have the columns {have}; they must be {want}.")


def making_of(spec: TableSpec) -> int:
    """A number that grows whenever a table is made otherwise than before: with a column more, by another rule, or of
    tables that are made otherwise.

    A table of silver or gold whose log has a lower one is made anew; one with a higher one is not for this version.
    """
    own = spec.making + len(spec.columns)
    match spec.layer:
        case "silver":
            # the days of traces say where the rows of all others lie
            return own if spec is TRACES else own + making_of(TRACES)
        case "gold":
            return own + sum(making_of(one) for one in SILVER)
        case _:
            return own
