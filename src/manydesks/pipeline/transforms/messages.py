"""`messages`: each message in its latest state."""

from __future__ import annotations

from pyspark.sql import DataFrame

from manydesks.pipeline.silver import MESSAGES
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import by_kind, events_of, number_of, quoted, when

#: which state an event leaves the message in
STATES = {
    "message_enqueued": "pending",
    "message_held": "held",
    "message_released": "pending",
    "message_received": "processing",
    "message_completed": "completed",
    "message_retried": "pending",
    "message_returned": "pending",
    "message_dead": "dead",
    "message_requeued": "pending",
    "message_cancelled": "cancelled",
}
ENDS = "message_completed message_dead message_cancelled"
FAILS = "message_retried message_dead"
DIES = "message_dead"
#: of which some have a text: it is the message's from then on
SAYS = "message_enqueued message_released message_requeued"
FIELDS = "channel conversation sender kind hop from_agent priority by team queue_ms reason class"


def of_events(events: DataFrame) -> DataFrame:
    told = events_of(events, " ".join((*STATES, "agent_routed")), FIELDS, plain="message_completed")
    found = told.where("message is not null")
    stored, moved = "message_enqueued", " ".join(STATES)
    state = by_kind({kind: quoted(word) for kind, word in STATES.items()})
    return partial(
        MESSAGES,
        found,
        message_id="message",
        trace="trace",
        parent=when(stored, "parent"),
        agent=when(stored, "agent"),
        from_agent=when(stored, "d_from_agent"),
        session=when(stored, "session"),
        channel=when(stored, "d_channel"),
        conversation=when(stored, "d_conversation"),
        sender=when(stored, "d_sender"),
        kind=when(stored, "d_kind"),
        hop=when(stored, "d_hop"),
        priority=when(stored, "d_priority"),
        by=when("agent_routed", "d_by"),
        team=when("agent_routed", "d_team"),
        body=when(SAYS, "body"),
        body_seq=when(SAYS, "if(body is not null, seq, null)"),
        created_at=when(stored, "at"),
        status=state,
        status_at=when(moved, "at"),
        ended_at=when(ENDS, "at"),
        status_seq=when(moved, "seq"),
        # counted: an attempt's number begins anew when somebody gives a dead message new attempts
        attempts=number_of("message_received"),
        retries=number_of("message_retried"),
        first_run_at=when("message_received", "at"),
        queue_ms=when("message_received", "d_queue_ms"),
        received_seq=when("message_received", "seq"),
        run=when("message_received", "run"),
        run_seq=when("message_received", "seq"),
        held_reason=when("message_held", "d_reason"),
        held_seq=when("message_held", "seq"),
        last_error=when(FAILS, "d_reason"),
        failure_class=when(FAILS, "d_class"),
        error_seq=when(FAILS, "seq"),
        died_at=when(DIES, "at"),
        died_seq=when(DIES, "seq"),
        deaths=number_of(DIES),
        death=when(DIES, "d_reason"),
        death_class=when(DIES, "d_class"),
        death_seq=when(DIES, "seq"),
    )
