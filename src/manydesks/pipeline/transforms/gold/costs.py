"""`cost_daily`: what runs used. They are of the day on which they began, as in `agent_daily`: the sums agree."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.gold.days import dated, dollars, total, unknown_cost

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def of_silver(runs: DataFrame) -> DataFrame:
    ended = dated(runs, "started_at").where(F.col("agent").isNotNull() & F.col("outcome").isNotNull())
    named = ended.withColumn("model", F.coalesce("used_model", "model"))
    return named.groupBy("day", "agent", "provider", "model").agg(
        F.count(F.lit(1)).alias("runs"),
        unknown_cost().alias("unknown_cost_runs"),
        *(total(name).alias(name) for name in TOKENS),
        dollars("cost_microusd").alias("cost_usd"),
    )
