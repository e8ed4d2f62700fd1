"""`responses`: each response in its latest state."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.silver import RESPONSES
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import by_kind, events_of, quoted, when

#: which state an event leaves the response in
STATES = {
    "response_ready": "pending",
    "response_delivered": "acked",
    "response_retried": "pending",
    "response_unsure": "unsure",
    "response_dead": "dead",
    "response_withdrawn": "withdrawn",
    "response_expired": "expired",
    "response_held": "held",
    "response_released": "pending",
}
READY = "response_ready"
FAILS = "response_retried response_unsure response_dead response_expired response_held"


def of_events(events: DataFrame) -> DataFrame:
    fields = "response channel part operation bytes files attempt receipt reason"
    found = events_of(events, " ".join(STATES), fields).where("d_response is not null")
    state = by_kind({kind: quoted(word) for kind, word in STATES.items()})
    return partial(
        RESPONSES,
        found,
        response="d_response",
        trace="trace",
        message="message",
        run=when(READY, "run"),
        agent="agent",
        channel=when(READY, "d_channel"),
        part=when(READY, "d_part"),
        operation=when(READY, "d_operation"),
        bytes=when(READY, "d_bytes"),
        files=when(READY, "coalesce(d_files, 0)"),
        body=when(READY, "body"),
        created_at=when(READY, "at"),
        status=state,
        status_at="at",
        status_seq="seq",
        attempts="d_attempt",
        delivered_at=when("response_delivered", "at"),
        receipt=when("response_delivered", "d_receipt"),
        last_error=when(FAILS, "d_reason"),
        error_seq=when(FAILS, "seq"),
    )


def finished(rows: DataFrame) -> DataFrame:
    took = F.col("delivered_at") - F.col("created_at")
    # `greatest` passes over NULL: what was not delivered took no time that is known
    return rows.withColumn("delivery_ms", F.when(took.isNotNull(), F.greatest(took, F.lit(0))))
