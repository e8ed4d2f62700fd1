"""`handoffs`: who gave work to whom."""

from __future__ import annotations

from pyspark.sql import DataFrame

from manydesks.pipeline.silver import HANDOFFS
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import by_kind, events_of, when

HANDOFF, STORED, ROUTED = "chain_handoff", "message_enqueued", "agent_routed"


def of_events(events: DataFrame) -> DataFrame:
    """Also rows of messages that no agent sent: `finished` drops them, when all that is known of a key is together."""
    found = events_of(events, f"{HANDOFF} {STORED} {ROUTED}", "from to hop by from_agent")
    found = found.where("message is not null")
    handed = found.where(f"kind != '{STORED}' or d_from_agent is not null")
    return partial(
        HANDOFFS,
        handed,
        message_id="message",
        trace="trace",
        parent=when(f"{HANDOFF} {STORED}", "parent"),
        run=when(HANDOFF, "run"),
        from_agent=by_kind({HANDOFF: "d_from", STORED: "d_from_agent"}),
        to_agent=by_kind({HANDOFF: "d_to", STORED: "agent"}),
        hop=when(f"{HANDOFF} {STORED}", "d_hop"),
        by=when(ROUTED, "d_by"),
        at=when(STORED, "at"),
    )


def finished(rows: DataFrame) -> DataFrame:
    return rows.where("from_agent is not null")
