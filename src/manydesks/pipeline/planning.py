"""How often Spark thinks about a query: over a few rows it thinks longer than it works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from manydesks.pipeline.tables import FEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark looks at what a part of a query gave before it plans the rest
ADAPTIVE = "spark.sql.adaptive.enabled"


@contextmanager
def planned_for(spark: SparkSession, rows: int) -> Iterator[None]:
    """So many rows are new. Of a few, whose parts are all small, each query is planned once, from the start: planning
    it anew after each part is a good part of the CPU of a round of a watch. Holds for all threads of the session."""
    before = spark.conf.get(ADAPTIVE)
    if rows <= FEW:
        spark.conf.set(ADAPTIVE, "false")
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(ADAPTIVE, before)
