"""Spans in their traces: what each followed from, what of it was its own time, and which of them the end waited for.

Whole traces go in, with every row known so far. Rows are wide, so what has to do with several of them is gathered from
a few columns and joined to them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def judged(rows: DataFrame) -> DataFrame:
    """With their parents and how long they took; `reason`: why a span cannot be, else NULL."""
    # the end of a message that nobody handed over is no span
    linked = _linked(rows.where(F.col("kind").isNotNull()))
    took = F.col("end_at") - F.col("start_at")
    return linked.withColumns({"reason": _fault(), "duration_ms": took})


def placed(spans: DataFrame) -> DataFrame:
    """Spans that can be, with `self_ms` and `on_critical_path`."""
    return _on_path(_with_self(spans), spans)


def _linked(rows: DataFrame) -> DataFrame:
    """A wait's parent is what brought its message into the lane: a run that failed or gave it back, else a hold that
    has ended, else a hand-off. Of the attempts to deliver a response only the first knows its run."""
    same = Window.partitionBy("trace", "message")
    before = same.orderBy("start_seq", "span_id").rowsBetween(Window.unboundedPreceding, -1)
    # the finer one first: its order serves the other too
    response = Window.partitionBy("trace", "message", F.substring_index("span_id", ":", 2))
    ended = (F.col("kind") == "hold") & F.col("end_at").isNotNull()
    of_response = F.max("parent_id").over(response)
    of_hold = F.max(F.when(ended, F.col("span_id"))).over(same)
    of_handoff = F.max(F.when(F.col("kind") == "handoff", F.col("span_id"))).over(same)
    of_try = F.last(F.when(F.col("kind") == "queue", F.col("run")), ignorenulls=True).over(before)
    parent = (
        F.when(F.col("kind") == "queue", F.coalesce(F.concat(F.lit("run:"), of_try), of_hold, of_handoff))
        .when(F.col("kind") == "hold", F.coalesce("parent_id", of_handoff))
        .when(F.col("kind") == "delivery", of_response)
        .otherwise(F.col("parent_id"))
    )
    return rows.withColumn("parent_id", parent)


def _fault() -> Column:
    return (
        F.when(F.col("start_at").isNull(), F.lit("it has no beginning"))
        .when(F.col("end_at") < F.col("start_at"), F.lit("it ends before it begins"))
        .when((F.col("kind") == "tool") & F.col("parent_id").isNull(), F.lit("it belongs to no run"))
    )


def _with_self(spans: DataFrame) -> DataFrame:
    """What of a span lies in none of its children: children may overlap, and reach beyond it."""
    # a hold lasts while the run that ends it goes on, and a wait follows from the try before it: neither is work of it
    apart = (F.col("kind") == "hold") | ((F.col("kind") == "queue") & F.col("parent_id").startswith("run:"))
    below = spans.where(~apart & F.col("parent_id").isNotNull() & F.col("end_at").isNotNull())
    inner = below.groupBy("trace", F.col("parent_id").alias("span_id")).agg(
        F.array_sort(F.collect_list(F.struct("start_at", "end_at"))).alias("inner")
    )
    # from left to right: how far the children reach so far, and how much of the span they cover
    covered = F.aggregate(
        "inner",
        F.struct(F.col("start_at").alias("upto"), F.lit(0).cast("long").alias("sum")),
        lambda so_far, child: F.struct(
            F.greatest(so_far["upto"], _least(child["end_at"])).alias("upto"),
            (
                so_far["sum"]
                + F.greatest(_least(child["end_at"]) - F.greatest(child["start_at"], so_far["upto"]), F.lit(0))
            ).alias("sum"),
        ),
        lambda so_far: so_far["sum"],
    )
    own = F.col("duration_ms") - F.coalesce(covered, F.lit(0))
    return spans.join(inner, ["trace", "span_id"], "left").withColumn("self_ms", own.cast("long")).drop("inner")


def _least(end: Column) -> Column:
    return F.least(end, F.col("end_at"))


def _on_path(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """The span that ended last, and whatever it followed from, up to the trace's beginning."""
    step = F.struct("start_seq", F.col("span_id").alias("id"), "parent_id")
    ended = F.struct(F.coalesce("end_at", F.lit(-1)), "start_seq", "span_id")
    walks = (
        # tool calls lead to nothing
        spans.where(F.col("kind") != "tool")
        .groupBy("trace")
        # parents begin before their children: latest first, each parent comes after its child
        .agg(
            F.reverse(F.array_sort(F.collect_list(step))).alias("steps"),
            F.max_by("span_id", ended).alias("last"),
        )
    )
    path = F.aggregate(
        "steps",
        F.struct(F.col("last").alias("next"), F.array().cast("array<string>").alias("ids")),
        lambda walk, step: F.when(
            step["id"] == walk["next"],
            F.struct(step["parent_id"].alias("next"), F.array_append(walk["ids"], step["id"]).alias("ids")),
        ).otherwise(walk),
        lambda walk: walk["ids"],
    )
    flagged = rows.join(walks.select("trace", path.alias("path")), "trace", "left")
    on_path = F.coalesce(F.array_contains("path", F.col("span_id")), F.lit(False))
    return flagged.withColumn("on_critical_path", on_path).drop("path")
