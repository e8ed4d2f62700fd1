"""`agent_daily`: each agent's day."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.gold import AGENT_DAILY
from manydesks.pipeline.transforms.gold.days import count_if, dated, dollars, filled, side_by_side, total, unknown_cost
from manydesks.pipeline.transforms.gold.percentiles import percentiles

KEYS = ["day", "agent"]


def of_silver(messages: DataFrame, runs: DataFrame, responses: DataFrame, handoffs: DataFrame) -> DataFrame:
    stored = dated(messages, "created_at").where(F.col("agent").isNotNull())
    begun = dated(runs, "started_at").where(F.col("agent").isNotNull())
    said = dated(responses, "created_at").where(F.col("agent").isNotNull())
    handed = dated(handoffs, "at")
    parts = side_by_side(
        KEYS,
        stored.groupBy(*KEYS).agg(
            F.count(F.lit(1)).alias("messages"),
            *(count_if(F.col("status") == state).alias(state) for state in ("completed", "dead", "cancelled")),
            F.sum("retries").alias("retries"),
        ),
        begun.groupBy(*KEYS).agg(
            F.count(F.lit(1)).alias("runs"),
            count_if(F.col("outcome") == "failed").alias("failed_runs"),
            total("input_tokens").alias("input_tokens"),
            total("output_tokens").alias("output_tokens"),
            dollars("cost_microusd").alias("cost_usd"),
            unknown_cost().alias("unknown_cost_runs"),
        ),
        _side(handed, "to_agent", "handoffs_in"),
        _side(handed, "from_agent", "handoffs_out"),
        percentiles(stored, KEYS, "queue_ms", "queue"),
        percentiles(begun, KEYS, "duration_ms", "run"),
        percentiles(said, KEYS, "delivery_ms", "delivery"),
    )
    return filled(AGENT_DAILY, parts)


def _side(handed: DataFrame, agent: str, name: str) -> DataFrame:
    named = handed.where(F.col(agent).isNotNull())
    return named.groupBy("day", F.col(agent).alias("agent")).agg(F.count(F.lit(1)).alias(name))
