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
        trace=F.col("trace"),
        origin=F.col("message"),
        channel=F.col("d_channel"),
        conversation=F.col("d_conversation"),
        sender=F.col("d_sender"),
        origin_seq=when(STORED, "seq"),
    )
    counted = partial(
        TRACES,
        events.where(F.col("trace").isNotNull()),
        trace=F.col("trace"),
        first_at=F.col("at"),
        last_at=F.col("at"),
        first_seq=F.col("seq"),
        last_seq=F.col("seq"),
        events=F.lit(1),
    )
    return said.unionByName(counted)


def finished(rows: DataFrame) -> DataFrame:
    return rows.withColumn("day", day_of("first_at"))


def day_of(at: str) -> Column:
    """The UTC day of a moment."""
    return F.date_format(F.timestamp_millis(at), "yyyy-MM-dd")
