"""`transcripts`: what was said, with its text, in the order of the ledger."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.silver import TRANSCRIPTS
from manydesks.pipeline.transforms.fold import partial
from manydesks.pipeline.transforms.ledger import by_kind, events_of, quoted, when

STORED, READY = "message_enqueued", "response_ready"
#: a message waited for answers, and its text is now its own with these; somebody gave it another; a person's answer
RELEASED, REQUEUED, ANSWERED = "message_released", "message_requeued", "question_answered"
#: what they are called in the column `operation`
TOLD, EDITED, ANSWER = "told", "edited", "answer"


def of_events(events: DataFrame) -> DataFrame:
    kinds = f"{STORED} {RELEASED} {REQUEUED} {ANSWERED} {READY}"
    found = events_of(events, kinds, "sender kind from_agent response operation actor by")
    found = found.where("body is not null")
    user = "if(d_kind = 'system', 'system', 'user')"
    says = "if(d_operation = 'notice', 'system', 'assistant')"
    return partial(
        TRANSCRIPTS,
        found,
        seq="seq",
        trace="trace",
        at="at",
        agent="agent",
        role=by_kind({STORED: user, f"{RELEASED} {REQUEUED} {ANSWERED}": quoted("user"), READY: says}),
        sender=by_kind(
            {STORED: "coalesce(d_from_agent, d_sender)", REQUEUED: "d_actor", ANSWERED: "d_by", READY: "agent"}
        ),
        message="message",
        run=when(f"{STORED} {READY}", "run"),
        response=when(READY, "d_response"),
        operation=by_kind(
            {RELEASED: quoted(TOLD), REQUEUED: quoted(EDITED), ANSWERED: quoted(ANSWER), READY: "d_operation"}
        ),
        body="body",
    )


def finished(rows: DataFrame, bodies: DataFrame) -> DataFrame:
    """With the texts of `bodies`, which has one row for each id; what was erased is gone here too."""
    texts = bodies.select(F.col("id").alias("body_id"), F.col("text").alias("said"), F.col("erased_at"))
    joined = rows.join(texts, F.col("body") == F.col("body_id"), "left")
    erased = F.col("erased_at").isNotNull()
    return (
        joined.withColumn("erased", F.coalesce(erased, F.lit(False)))
        .withColumn("text", F.when(~F.col("erased"), F.col("said")))
        .drop("body_id", "said", "erased_at")
    )


def without(rows: DataFrame, bodies: Collection[int]) -> DataFrame:
    """The texts of these bodies are gone."""
    if not bodies:
        return rows
    gone = F.col("body").isin(list(bodies))
    return rows.withColumn("text", F.when(~gone, F.col("text"))).withColumn("erased", F.col("erased") | gone)
