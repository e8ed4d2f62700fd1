"""`traces`: each arrival and how far it reaches in time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.silver import TRACES
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import events_of, when

STORED = "message_enqueued"

#: Spark counts microseconds in 64 bits
LAST_MS = 9_223_372_036_854_775


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


def moment_of(at: str) -> Column:
    """What no clock says is the first or the last moment that Spark knows: its word must not stop a run."""
    known = f"case when {at} > {LAST_MS} then {LAST_MS} when {at} < -{LAST_MS} then -{LAST_MS} else {at} end"
    return F.expr(f"timestamp_millis({known})")


def day_of(at: str) -> Column:
    """The UTC day of a moment."""
    return F.date_format(moment_of(at), "yyyy-MM-dd")
