"""`traces`: each arrival and how far it reaches in time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.silver import TRACES
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import events_of, when

STORED = "message_enqueued"


def of_events(events: DataFrame) -> DataFrame:
    stored = events_of(events, STORED, "channel conversation sender")
    said = partial(
        TRACES,
        stored,
        trace="trace",
        origin="message",
        channel="d_channel",
        conversation="d_conversation",
        sender="d_sender",
        origin_seq=when(STORED, "seq"),
    )
    counted = partial(
        TRACES,
        events.where("trace is not null"),
        trace="trace",
        first_at="at",
        last_at="at",
        first_seq="seq",
        last_seq="seq",
        events="1",
    )
    return said.unionByName(counted)


def finished(rows: DataFrame) -> DataFrame:
    return rows.withColumn("day", day_of("first_at"))


def day_of(at: str) -> Column:
    """The UTC day of a moment."""
    return F.date_format(F.timestamp_millis(at), "yyyy-MM-dd")
