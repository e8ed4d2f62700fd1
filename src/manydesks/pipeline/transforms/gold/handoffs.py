"""`handoff_matrix`: who gave work to whom."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.gold.days import dated


def of_silver(handoffs: DataFrame) -> DataFrame:
    known = dated(handoffs, "at").where(F.col("from_agent").isNotNull() & F.col("to_agent").isNotNull())
    return known.groupBy("day", "from_agent", "to_agent").agg(F.count(F.lit(1)).alias("handoffs"))
