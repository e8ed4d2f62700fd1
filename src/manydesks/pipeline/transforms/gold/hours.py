"""`busy_hours`: when messages come."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.traces import moment_of


def of_silver(messages: DataFrame) -> DataFrame:
    at = moment_of("created_at")
    stored = messages.where(F.col("created_at").isNotNull() & F.col("agent").isNotNull())
    return stored.groupBy(
        (F.weekday(at) + 1).cast("long").alias("weekday"), F.hour(at).cast("long").alias("hour"), "agent"
    ).agg(F.count(F.lit(1)).alias("messages"))
