"""`slo`: how often agents were quick enough."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.gold.days import count_if, dated

ANSWERED_MS = 60_000
DELIVERED_MS = 30_000


def of_silver(messages: DataFrame, responses: DataFrame) -> DataFrame:
    """What has not ended counts for nothing yet: a table must not depend on when it is made."""
    asked = dated(messages, "created_at").where(F.col("status").isin("completed", "dead"))
    said = dated(responses, "created_at").where(F.col("status").isin("acked", "dead", "expired", "unsure"))
    answered = (F.col("status") == "completed") & (F.col("ended_at") - F.col("created_at") <= ANSWERED_MS)
    delivered = (F.col("status") == "acked") & (F.col("delivery_ms") <= DELIVERED_MS)
    return _target(asked, "answered within 60 s", answered).unionByName(
        _target(said, "delivered within 30 s", delivered)
    )


def _target(rows: DataFrame, target: str, good: Column) -> DataFrame:
    counted = rows.where(F.col("agent").isNotNull()).groupBy("day", "agent")
    return counted.agg(count_if(good).alias("good"), F.count(F.lit(1)).alias("total")).select(
        "day", "agent", F.lit(target).alias("target"), "good", "total", (F.col("good") / F.col("total")).alias("ratio")
    )
