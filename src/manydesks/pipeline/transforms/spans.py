"""`spans`: what took time, and because of what.

    handoff:<message>               from the asking to the end of the message that was handed over
    hold:<message>                  the time that a message was kept out of its lane: by a chain, a join, a guard
    queue:<message>:<run>           the wait of a message until a run took it
    run:<run>                       a run
    tool:<run>:<call>               a tool call
    delivery:<response>:<attempt>   an attempt to deliver a response

A hand-off's parent is the run that handed over; a hold's is the run whose end let the message go; a wait's is the hold
of its message, else the hand-off that made it; a run's is the wait of
its first message; a tool call's and a delivery's is the run. Each attempt has spans of its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from manydesks.pipeline.silver import SPANS
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import events_of, when

ENDS = "message_completed message_dead message_cancelled"
HANDED, HELD, FREED, TAKEN = "chain_handoff", "message_held", "message_released", "message_received"
START, DONE, CALLED, CALL_DONE = "chain_step_start", "chain_step_done", "tool_called", "tool_done"
READY = "response_ready"
TRIES = "response_delivered response_retried response_unsure response_dead"


def of_events(events: DataFrame) -> DataFrame:
    """Each event begins or ends a span; two kinds also have to do with a second one."""
    fields = "from to reason attempt queue_ms outcome tool call ok response channel"
    found = events_of(
        events, f"{HANDED} {HELD} {FREED} {TAKEN} {START} {DONE} {CALLED} {CALL_DONE} {READY} {TRIES}", fields
    )
    hold, delivery, tool = f"{HELD} {FREED}", f"{READY} {TRIES}", f"{CALLED} {CALL_DONE}"
    run, wait = f"{START} {DONE}", F.concat_ws(":", F.lit("queue"), "message", "run")
    of_run = F.concat(F.lit("run:"), F.col("run"))
    attempt = F.when(F.col("kind") == READY, F.lit(1)).otherwise(F.coalesce("d_attempt", F.lit(1)))
    spans = partial(
        SPANS,
        found,
        trace=F.col("trace"),
        span_id=_of_kind(
            (HANDED, F.concat(F.lit("handoff:"), F.col("message"))),
            (hold, F.concat(F.lit("hold:"), F.col("message"))),
            (TAKEN, wait),
            (run, of_run),
            (tool, F.concat_ws(":", F.lit("tool"), "run", "d_call")),
            (delivery, _delivery_id(attempt)),
        ),
        kind=_of_kind(
            (HANDED, F.lit("handoff")),
            (hold, F.lit("hold")),
            (TAKEN, F.lit("queue")),
            (run, F.lit("run")),
            (tool, F.lit("tool")),
            (delivery, F.lit("delivery")),
        ),
        name=_of_kind(
            (HANDED, F.concat_ws(" → ", "d_from", "d_to")),
            (HELD, F.concat(F.lit("held: "), F.coalesce("d_reason", F.lit("unknown")))),
            (TAKEN, F.concat(F.lit("waits for "), F.col("agent"))),
            (run, F.col("agent")),
            (tool, F.col("d_tool")),
            (READY, F.concat(F.lit("to "), F.col("d_channel"))),
        ),
        agent=F.coalesce(when(HANDED, "d_to"), F.col("agent")),
        message=F.col("message"),
        run=F.col("run"),
        attempt=_of_kind((f"{TAKEN} {START}", F.col("d_attempt")), (delivery, attempt)),
        parent_id=_of_kind((run, wait), (f"{HANDED} {FREED} {tool} {READY}", of_run)),
        start_at=_of_kind(
            (TAKEN, F.col("at") - F.coalesce("d_queue_ms", F.lit(0))),
            (f"{HANDED} {HELD} {START} {CALLED} {READY}", F.col("at")),
        ),
        end_at=when(f"{FREED} {TAKEN} {DONE} {CALL_DONE} {TRIES}", "at"),
        ok=_of_kind(
            (TAKEN, F.lit(True)),
            (DONE, F.col("d_outcome") == "completed"),
            (CALL_DONE, F.col("d_ok")),
            (TRIES, F.col("kind") == "response_delivered"),
        ),
        start_seq=when(f"{HANDED} {hold} {TAKEN} {START} {CALLED} {READY}", "seq"),
    )
    return spans.unionByName(_ends_of_handoffs(events)).unionByName(_later_deliveries(events))


def finished(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Whole traces in, each with every row known so far: the spans, and those that cannot be, with the reason."""
    # the end of a message that nobody handed over is no span
    judged = _linked(rows.where(F.col("kind").isNotNull())).withColumn("reason", _fault())
    good = judged.where(F.col("reason").isNull()).withColumn("duration_ms", F.col("end_at") - F.col("start_at"))
    return _on_path(_with_self(good)), judged.where(F.col("reason").isNotNull())


def _linked(rows: DataFrame) -> DataFrame:
    """A wait's parent is what brought its message into the lane: a hold that has ended, else a hand-off. Of the
    attempts to deliver a response only the first knows its run."""
    same = Window.partitionBy("trace", "message")
    ended = (F.col("kind") == "hold") & F.col("end_at").isNotNull()
    hold = F.max(F.when(ended, F.col("span_id"))).over(same)
    handoff = F.max(F.when(F.col("kind") == "handoff", F.col("span_id"))).over(same)
    response = Window.partitionBy("trace", F.substring_index("span_id", ":", 2))
    parent = (
        F.when(F.col("kind") == "queue", F.coalesce(hold, handoff))
        .when(F.col("kind") == "hold", F.coalesce("parent_id", handoff))
        .when(F.col("kind") == "delivery", F.max("parent_id").over(response))
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
    # each span twice: for itself, and for its parent; whatever has to do with one parent is then one group
    itself = spans.withColumn("of", F.col("span_id")).withColumn("child", F.lit(False))
    # a hold lasts while the run that ends it goes on, but is no work of it
    below = spans.where((F.col("kind") != "hold") & F.col("parent_id").isNotNull() & F.col("end_at").isNotNull())
    below = below.withColumn("of", F.col("parent_id")).withColumn("child", F.lit(True))
    family = Window.partitionBy("trace", "of")
    start, end = (F.max(F.when(~F.col("child"), F.col(name))).over(family) for name in ("start_at", "end_at"))
    both = (
        itself.unionByName(below)
        .withColumn("begin", F.greatest("start_at", start))
        .withColumn("end", F.least("end_at", end))
        .withColumn("counts", F.col("child") & F.col("begin").isNotNull() & (F.col("end") > F.col("begin")))
    )
    order = family.orderBy(F.col("counts").desc(), "begin", "end", "span_id")
    before = F.max(F.when(F.col("counts"), F.col("end"))).over(order.rowsBetween(Window.unboundedPreceding, -1))
    fresh = F.greatest(F.col("end") - F.greatest(F.col("begin"), F.coalesce(before, F.col("begin"))), F.lit(0))
    covered = F.sum(F.when(F.col("counts"), F.col("fresh"))).over(family)
    counted = both.withColumn("fresh", fresh).withColumn("covered", F.coalesce(covered, F.lit(0)))
    own = (F.col("duration_ms") - F.col("covered")).cast("long")
    return counted.where(~F.col("child")).withColumn("self_ms", own).select(*spans.columns, "self_ms")


def _on_path(spans: DataFrame) -> DataFrame:
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
    flagged = spans.join(walks.select("trace", path.alias("path")), "trace", "left")
    on_path = F.coalesce(F.array_contains("path", F.col("span_id")), F.lit(False))
    return flagged.withColumn("on_critical_path", on_path).drop("path")


def _ends_of_handoffs(events: DataFrame) -> DataFrame:
    """Of every message: `finished` drops those that nobody handed over."""
    found = events_of(events, ENDS).where(F.col("message").isNotNull())
    return partial(
        SPANS,
        found,
        trace=F.col("trace"),
        span_id=F.concat(F.lit("handoff:"), F.col("message")),
        message=F.col("message"),
        end_at=F.col("at"),
        ok=F.col("kind") == "message_completed",
    )


def _later_deliveries(events: DataFrame) -> DataFrame:
    """A failed attempt says when the next one begins."""
    found = events_of(events, "response_retried", "response attempt next_at")
    attempt = F.coalesce("d_attempt", F.lit(1)) + 1
    return partial(
        SPANS,
        found,
        trace=F.col("trace"),
        span_id=_delivery_id(attempt),
        kind=F.lit("delivery"),
        name=F.lit("again"),
        agent=F.col("agent"),
        message=F.col("message"),
        attempt=attempt,
        start_at=F.coalesce("d_next_at", "at"),
        start_seq=F.col("seq"),
    )


def _delivery_id(attempt: Column) -> Column:
    return F.concat_ws(":", F.lit("delivery"), F.col("d_response").cast("string"), attempt.cast("string"))


def _of_kind(*cases: tuple[str, Column]) -> Column:
    """The first value whose kinds the event is of; else NULL."""
    return F.coalesce(*(when(kinds, value) for kinds, value in cases))
