"""`spans`: what took time, and because of what.

    handoff:<message>               from the asking to the end of the message that was handed over
    hold:<message>:<event>          the time that a message was kept out of its lane: by a chain, a join, a guard
    queue:<message>:<run>           the wait of a message until a run took it
    run:<run>                       a run, in the trace of each message that it worked on
    tool:<run>:<call>               a tool call
    delivery:<response>:<event>     an attempt to deliver a response, the wait for it included
    unnamed:<event>                 of an event that does not tell its run

A hand-off's parent is the run that handed over; a hold's is the run whose end let the message go; a wait's is what
brought its message into the lane: a run that did not answer it, or a hold, whichever was last, else the hand-off that
made it; a run's is the first wait that it ended; a tool call's and a delivery's is the run, of a response that no run
wrote what came last before it. Each attempt has spans of its own, and so has each time that a message was held.

What ends a hold or a delivery does not know what began it: it is a row of its own, `…:<event>:end`, of which
`paths.judged` makes one with the beginning before it. So is what ends a hand-off, since its message may get new
attempts after its death: that is such a row, too, and takes the end away.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from manydesks.pipeline.silver import SPANS
from manydesks.pipeline.transforms.fold import part
from manydesks.pipeline.transforms.ledger import by_kind, events_of, of_kinds, when
from manydesks.pipeline.transforms.paths import LATER

ENDS = "message_completed message_dead message_cancelled"
#: a run is done with a message
LEAVES = f"{ENDS} message_retried message_returned"
HANDED, HELD, FREED, TAKEN = "chain_handoff", "message_held", "message_released", "message_received"
START, DONE, CALLED, CALL_DONE = "chain_step_start", "chain_step_done", "tool_called", "tool_done"
READY, RETRIED, AGAIN = "response_ready", "response_retried", "response_released"
TRIES = "response_delivered response_retried response_unsure response_dead"
#: it is not tried any more, or not now
GIVEN_UP = "response_withdrawn response_expired response_held"
#: a dead message is open again
REOPENED = "message_requeued"
#: a message that was held may end so
LOST = "message_dead message_cancelled"


def of_events(events: DataFrame) -> DataFrame:
    """Each event begins or ends a span, some of them several. They are read once: for a few events Spark thinks longer
    of a plan than it works."""
    fields = "from to reason attempt queue_ms outcome tool call ok response channel next_at duration_ms"
    deliveries = f"{READY} {AGAIN} {TRIES} {GIVEN_UP}"
    kinds = f"{HANDED} {HELD} {FREED} {TAKEN} {START} {DONE} {CALLED} {CALL_DONE} {deliveries} {LEAVES} {REOPENED}"
    found = events_of(events, kinds, fields, plain=f"{LEAVES} {REOPENED}")
    # what no event tells at once shares a place: each place takes its time with every event
    told = (
        f"""case when not {of_kinds(f"{LEAVES} {REOPENED}")} then {_of_event()}
        when {of_kinds(LEAVES)} and run is not null then {_end_of_run()} end""",
        f"""case when {of_kinds(TAKEN)} then {_run_of_message()} when {of_kinds(RETRIED)} then {_later_delivery()}
        when {of_kinds(f"{ENDS} {REOPENED}")} and message is not null then {_end_of_handoff()} end""",
        f"case when {of_kinds(LOST)} and message is not null then {_end_of_hold()} end",
    )
    names = [f"part{number}" for number in range(len(told))]
    parts = found.selectExpr(*(f"{value} as {name}" for name, value in zip(names, told, strict=True)))
    # not `inline`: Spark compiles nothing of a generator, and takes twice as long
    return parts.unpivot([], [*names], "which", "part").where("part is not null").select("part.*")


def _of_event() -> str:
    hold, tries, tool = f"{HELD} {FREED}", f"{READY} {AGAIN} {TRIES}", f"{CALLED} {CALL_DONE}"
    run, wait, of_run = f"{START} {DONE}", "concat_ws(':', 'queue', message, run)", "concat('run:', run)"
    return part(
        SPANS,
        trace="trace",
        span_id=_named(
            by_kind(
                {
                    HANDED: "concat('handoff:', message)",
                    HELD: _phase("hold", "message"),
                    FREED: _phase("hold", "message", end=True),
                    TAKEN: wait,
                    run: of_run,
                    tool: "concat_ws(':', 'tool', run, d_call)",
                    f"{READY} {AGAIN}": _phase("delivery", "d_response"),
                    f"{TRIES} {GIVEN_UP}": _phase("delivery", "d_response", end=True),
                }
            )
        ),
        kind=by_kind(
            {
                HANDED: "'handoff'",
                hold: "'hold'",
                TAKEN: "'queue'",
                run: "'run'",
                tool: "'tool'",
                tries: "'delivery'",
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
                AGAIN: "'released'",
            }
        ),
        agent=f"coalesce({when(HANDED, 'd_to')}, agent)",
        message="message",
        # a hold's is the one that ends it
        run=f"case when not {of_kinds(HELD)} then run end",
        attempt=when(f"{TAKEN} {START}", "d_attempt"),
        start_at=by_kind(
            {
                TAKEN: "try_subtract(at, coalesce(d_queue_ms, 0))",
                f"{HANDED} {HELD} {START} {CALLED} {READY} {AGAIN}": "at",
            }
        ),
        end_at=when(f"{FREED} {TAKEN} {DONE} {CALL_DONE} {TRIES} {GIVEN_UP}", "at"),
        ok=by_kind(
            {
                TAKEN: "true",
                DONE: "d_outcome = 'completed'",
                CALL_DONE: "d_ok",
                f"{TRIES} {GIVEN_UP}": "kind = 'response_delivered'",
            }
        ),
        measured_ms=when(CALL_DONE, "d_duration_ms"),
        # of a hold, the event that ends it: what it followed from began before that
        start_seq=when(f"{HANDED} {TAKEN} {START} {CALLED} {READY} {AGAIN}", "seq"),
    )


def _run_of_message() -> str:
    """A run's own events are of the trace of its first message; the others have a part in it as well."""
    return part(
        SPANS,
        trace="trace",
        span_id=_named("concat('run:', run)"),
        kind="'run'",
        name="agent",
        agent="agent",
        message="message",
        run="run",
        attempt="d_attempt",
        start_at="at",
        start_seq="seq",
    )


def _end_of_run() -> str:
    """As far as the message is concerned."""
    return part(
        SPANS,
        trace="trace",
        span_id="concat('run:', run)",
        end_at="at",
        ok="kind = 'message_completed'",
    )


def _end_of_handoff() -> str:
    """Of every message: `paths.judged` drops those that nobody handed over. Without an end: it goes on."""
    return part(
        SPANS,
        trace="trace",
        span_id=_phase("handoff", "message", end=True),
        message="message",
        end_at=when(ENDS, "at"),
        ok=when(ENDS, "kind = 'message_completed'"),
    )


def _end_of_hold() -> str:
    """Of every message that ends so: `paths.judged` drops those that were not held."""
    return part(SPANS, trace="trace", span_id=_phase("hold", "message", end=True), message="message", end_at="at")


def _later_delivery() -> str:
    """A failed attempt says when the next one begins; `paths.judged` knows it by its name, since it may end before."""
    return part(
        SPANS,
        trace="trace",
        span_id=_phase("delivery", "d_response"),
        kind="'delivery'",
        name=f"'{LATER}'",
        agent="agent",
        message="message",
        start_at="coalesce(d_next_at, at)",
        start_seq="seq",
    )


def _named(id: str) -> str:
    """Of an event that does not tell what it is about, by its number: a span that cannot be has a name, too."""
    return f"coalesce({id}, concat('unnamed:', cast(seq as string)))"


def _phase(kind: str, subject: str, *, end: bool = False) -> str:
    words = [f"'{kind}'", f"cast({subject} as string)", "cast(seq as string)", *(["'end'"] if end else [])]
    return f"concat_ws(':', {', '.join(words)})"
