"""`trace_summary`: an arrival and all that followed, in one row. Whole traces in: a day of silver has them whole."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from manydesks.pipeline.gold import TRACE_SUMMARY
from manydesks.pipeline.transforms.gold.days import count_if, dollars, filled, side_by_side, unknown_cost

KEYS = ["day", "trace"]
OPEN = ("pending", "held", "processing")


def of_silver(traces: DataFrame, messages: DataFrame, runs: DataFrame, spans: DataFrame) -> DataFrame:
    parts = side_by_side(
        KEYS,
        traces.select(*KEYS, "channel", F.col("first_at").alias("started_at")),
        messages.groupBy(*KEYS).agg(
            F.count(F.lit(1)).alias("messages"),
            F.count_distinct("agent").alias("agents"),
            F.max("hop").alias("hops"),
            count_if(F.col("status") == "dead").alias("dead"),
            count_if(F.col("status").isin(*OPEN)).alias("open"),
            F.max("ended_at").alias("messages_ended_at"),
        ),
        _fan_out(messages),
        runs.groupBy(*KEYS).agg(
            count_if(F.col("outcome") == "failed").alias("failed_runs"),
            dollars("cost_microusd").alias("cost_usd"),
            unknown_cost().alias("unknown_cost_runs"),
        ),
        spans.groupBy(*KEYS).agg(
            F.max("end_at").alias("spans_ended_at"),
            # also one whose own span cannot be: a message has waited for it
            F.count_distinct(F.when(F.col("kind").isin("run", "queue"), F.col("run"))).alias("runs"),
        ),
        _paths(spans, traces),
    )
    status = F.when(F.col("open") > 0, F.lit("open")).when(F.col("dead") > 0, F.lit("dead")).otherwise(F.lit("done"))
    # silver may be killed between two tables: what has no trace yet comes with it
    whole = parts.where(F.col("started_at").isNotNull()).withColumn("status", status)
    # without any span, all of it may have been cancelled
    whole = whole.withColumn("ended_at", F.coalesce("spans_ended_at", "messages_ended_at"))
    took = F.col("ended_at") - F.col("started_at")
    # a clock that was set back on the way leaves nothing that could be told
    return filled(TRACE_SUMMARY, whole.withColumn("total_ms", F.when(took >= 0, took)))


def _fan_out(messages: DataFrame) -> DataFrame:
    """Messages without a parent are those of the arrival itself."""
    children = messages.groupBy(*KEYS, "parent").agg(F.count(F.lit(1)).alias("children"))
    return children.groupBy(*KEYS).agg(F.max("children").alias("fan_out"))


def _paths(spans: DataFrame, traces: DataFrame) -> DataFrame:
    """The critical path in words, and the time that lies in its spans: they may contain each other, and leave gaps. By
    a clock that was set back and forth, some may lie before the trace's beginning."""
    began = traces.select(*KEYS, F.col("first_at").alias("began"))
    path = spans.where(F.col("on_critical_path")).join(began, KEYS)
    ended = path.where(F.col("end_at").isNotNull())
    order = Window.partitionBy(*KEYS).orderBy("start_at", "end_at", "span_id")
    before = F.max("end_at").over(order.rowsBetween(Window.unboundedPreceding, -1))
    begin = F.greatest(F.col("start_at"), F.coalesce(before, F.col("start_at")), F.col("began"))
    fresh = ended.withColumn("fresh", F.greatest(F.col("end_at") - begin, F.lit(0)))
    took = F.expr("case when duration_ms is null then 'not ended' else format_string('%,d ms', duration_ms) end")
    step = F.struct("start_seq", "span_id", F.format_string("%s (%s)", F.coalesce("name", "kind"), took).alias("said"))
    words = path.groupBy(*KEYS).agg(F.array_sort(F.collect_list(step)).alias("steps"))
    told = words.select(*KEYS, F.array_join(F.col("steps")["said"], " > ").alias("critical_path"))
    return told.join(fresh.groupBy(*KEYS).agg(F.sum("fresh").alias("critical_path_ms")), KEYS, "left")
