"""`handoffs`: who gave work to whom."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.silver import HANDOFFS
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import events_of, when

HANDOFF, STORED, ROUTED = "chain_handoff", "message_enqueued", "agent_routed"


def of_events(events: DataFrame) -> DataFrame:
    """Also rows of messages that no agent sent: `finished` drops them, when all that is known of a key is together."""
    found = events_of(events, f"{HANDOFF} {STORED} {ROUTED}", "from to hop by from_agent")
    found = found.where(F.col("message").isNotNull())
    handed = found.where((F.col("kind") != STORED) | F.col("d_from_agent").isNotNull())
    return partial(
        HANDOFFS,
        handed,
        message_id=F.col("message"),
        trace=F.col("trace"),
        parent=when(f"{HANDOFF} {STORED}", "parent"),
        run=when(HANDOFF, "run"),
        from_agent=F.coalesce(when(HANDOFF, "d_from"), when(STORED, "d_from_agent")),
        to_agent=F.coalesce(when(HANDOFF, "d_to"), when(STORED, "agent")),
        hop=when(f"{HANDOFF} {STORED}", "d_hop"),
        by=when(ROUTED, "d_by"),
        at=when(STORED, "at"),
    )


def finished(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("from_agent").isNotNull())
