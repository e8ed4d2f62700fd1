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

from pyspark.sql import DataFrame

from manydesks.pipeline.silver import SPANS
from manydesks.pipeline.transforms.fold import part
from manydesks.pipeline.transforms.ledger import by_kind, events_of, of_kinds, when

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
    told = (
        f"case when not {of_kinds(ENDS)} then {_of_event()} end",
        f"case when {of_kinds(ENDS)} and message is not null then {_end_of_handoff()} end",
        when(RETRIED, _later_delivery()),
    )
    return found.selectExpr(f"inline(array_compact(array({', '.join(told)})))")


def _of_event() -> str:
    hold, delivery, tool = f"{HELD} {FREED}", f"{READY} {TRIES}", f"{CALLED} {CALL_DONE}"
    run, wait, of_run = f"{START} {DONE}", "concat_ws(':', 'queue', message, run)", "concat('run:', run)"
    attempt = f"case when {of_kinds(READY)} then 1 else coalesce(d_attempt, 1) end"
    return part(
        SPANS,
        trace="trace",
        span_id=by_kind(
            {
                HANDED: "concat('handoff:', message)",
                hold: "concat('hold:', message)",
                TAKEN: wait,
                run: of_run,
                tool: "concat_ws(':', 'tool', run, d_call)",
                delivery: _delivery_id(attempt),
            }
        ),
        kind=by_kind(
            {
                HANDED: "'handoff'",
                hold: "'hold'",
                TAKEN: "'queue'",
                run: "'run'",
                tool: "'tool'",
                delivery: "'delivery'",
            }
        ),
        name=by_kind(
            {
                HANDED: "concat_ws(' → ', d_from, d_to)",
                HELD: "concat('held: ', coalesce(d_reason, 'unknown'))",
                TAKEN: "concat('waits for ', agent)",
                run: "agent",
                tool: "d_tool",
                READY: "concat('to ', d_channel)",
            }
        ),
        agent=f"coalesce({when(HANDED, 'd_to')}, agent)",
        message="message",
        run="run",
        attempt=by_kind({f"{TAKEN} {START}": "d_attempt", delivery: attempt}),
        parent_id=by_kind({run: wait, f"{HANDED} {FREED} {tool} {READY}": of_run}),
        start_at=by_kind(
            {
                TAKEN: "at - coalesce(d_queue_ms, 0)",
                f"{HANDED} {HELD} {START} {CALLED} {READY}": "at",
            }
        ),
        end_at=when(f"{FREED} {TAKEN} {DONE} {CALL_DONE} {TRIES}", "at"),
        ok=by_kind(
            {
                TAKEN: "true",
                DONE: "d_outcome = 'completed'",
                CALL_DONE: "d_ok",
                TRIES: "kind = 'response_delivered'",
            }
        ),
        start_seq=when(f"{HANDED} {hold} {TAKEN} {START} {CALLED} {READY}", "seq"),
    )


def _end_of_handoff() -> str:
    """Of every message: `paths.judged` drops those that nobody handed over."""
    return part(
        SPANS,
        trace="trace",
        span_id="concat('handoff:', message)",
        message="message",
        end_at="at",
        ok="kind = 'message_completed'",
    )


def _later_delivery() -> str:
    """A failed attempt says when the next one begins."""
    attempt = "coalesce(d_attempt, 1) + 1"
    return part(
        SPANS,
        trace="trace",
        span_id=_delivery_id(attempt),
        kind="'delivery'",
        name="'again'",
        agent="agent",
        message="message",
        attempt=attempt,
        start_at="coalesce(d_next_at, at)",
        start_seq="seq",
    )


def _delivery_id(attempt: str) -> str:
    return f"concat_ws(':', 'delivery', cast(d_response as string), cast({attempt} as string))"
