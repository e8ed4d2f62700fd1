"""`dead_letters`: every message that ever died, also those that were given new attempts since."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.gold.days import dated


def of_silver(messages: DataFrame) -> DataFrame:
    return dated(messages, "died_at").select(
        "day",
        "message_id",
        "trace",
        "agent",
        F.col("death").alias("reason"),
        F.col("death_class").alias("failure_class"),
        "attempts",
        "died_at",
        "deaths",
        F.col("status").eqNullSafe("dead").alias("still_dead"),
    )
