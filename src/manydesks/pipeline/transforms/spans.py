"""`spans`: what took time, and because of what.

    handoff:<message>               from the asking to the end of the message that was handed over
    hold:<message>                  the time that a message was kept out of its lane: by a chain, a join, a guard
    queue:<message>:<run>           the wait of a message until a run took it
    run:<run>                       a run
    tool:<run>:<call>               a tool call
    delivery:<response>:<attempt>   an attempt to deliver a response

A hand-off's parent is the run that handed over; a hold's is the run whose end let the message go; a wait's is the run
before it that did not answer the message, else the hold of its message, else the hand-off that made it; a run's is the
wait of its first message; a tool call's and a delivery's is the run. Each attempt has spans of its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.silver import SPANS
from manydesks.pipeline.transforms.fold import part
from manydesks.pipeline.transforms.ledger import events_of, when

ENDS = "message_completed message_dead message_cancelled"
HANDED, HELD, FREED, TAKEN = "chain_handoff", "message_held", "message_released", "message_received"
START, DONE, CALLED, CALL_DONE = "chain_step_start", "chain_step_done", "tool_called", "tool_done"
READY, RETRIED = "response_ready", "response_retried"
TRIES = "response_delivered response_retried response_unsure response_dead"


def of_events(events: DataFrame) -> DataFrame:
    """Each event begins or ends a span; one kind also begins a second one. They are read once: for a few events Spark
    thinks longer of a plan than it works."""
    fields = "from to reason attempt queue_ms outcome tool call ok response channel next_at"
    kinds = f"{HANDED} {HELD} {FREED} {TAKEN} {START} {DONE} {CALLED} {CALL_DONE} {READY} {TRIES} {ENDS}"
    found = events_of(events, kinds, fields)
    ends = F.col("kind").isin(ENDS.split())
    told = F.array_compact(
        F.array(
            F.when(~ends, _of_event()),
            F.when(ends & F.col("message").isNotNull(), _end_of_handoff()),
            when(RETRIED, _later_delivery()),
        )
    )
    return found.select(F.inline(told))


def _of_event() -> Column:
    hold, delivery, tool = f"{HELD} {FREED}", f"{READY} {TRIES}", f"{CALLED} {CALL_DONE}"
    run, wait = f"{START} {DONE}", F.concat_ws(":", F.lit("queue"), "message", "run")
    of_run = F.concat(F.lit("run:"), F.col("run"))
    attempt = F.when(F.col("kind") == READY, F.lit(1)).otherwise(F.coalesce("d_attempt", F.lit(1)))
    return part(
        SPANS,
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


def _end_of_handoff() -> Column:
    """Of every message: `paths.judged` drops those that nobody handed over."""
    return part(
        SPANS,
        trace=F.col("trace"),
        span_id=F.concat(F.lit("handoff:"), F.col("message")),
        message=F.col("message"),
        end_at=F.col("at"),
        ok=F.col("kind") == "message_completed",
    )


def _later_delivery() -> Column:
    """A failed attempt says when the next one begins."""
    attempt = F.coalesce("d_attempt", F.lit(1)) + 1
    return part(
        SPANS,
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
