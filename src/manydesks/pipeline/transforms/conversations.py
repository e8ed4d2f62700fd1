"""Transcripts as conversations: what was said to one agent within one trace, and what it said, in order."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.transcripts import EDITED, TOLD

#: a sign below somebody else's message is no turn
NO_TURN = ("reaction",)
#: the text of a message is this one from then on
REPLACES = (EDITED, TOLD)


def of_silver(transcripts: DataFrame, messages: DataFrame) -> DataFrame:
    """A row for each trace and agent: day, trace, agent, first_seq, at, outcome, erased and turns (seq, role, content).

    Of a message whose text was replaced, the last one is the turn, and what was said to those before is none: nobody
    would know to what. What was erased is none, too; it is only counted. A conversation of which nothing is left has no
    row. Both tables must have their traces whole.
    """
    said = transcripts.where(
        F.col("agent").isNotNull() & (F.col("operation").isNull() | ~F.col("operation").isin(*NO_TURN))
    )
    stored_or_replaced = F.col("operation").isNull() | F.col("operation").isin(*REPLACES)
    texts = F.col("message").isNotNull() & F.col("response").isNull() & stored_or_replaced
    last = F.max(F.when(texts, F.col("seq"))).over(Window.partitionBy("trace", "agent", "message"))
    said = said.withColumn("last", last).where(F.col("last").isNull() | (F.col("seq") >= F.col("last")))
    there = ~F.col("erased") & F.col("text").isNotNull() & (F.trim("text") != "")
    turn = F.struct("seq", "role", F.col("text").alias("content"))
    rows = said.groupBy("day", "trace", "agent").agg(
        F.min("seq").alias("first_seq"),
        F.min_by(F.when(there, F.col("at")), F.when(there, F.col("seq"))).alias("at"),
        F.count_if(F.col("erased")).alias("erased"),
        # a list leaves out NULL
        F.sort_array(F.collect_list(F.when(there, turn))).alias("turns"),
    )
    return rows.where(F.size("turns") > 0).join(outcomes(messages), ["trace", "agent"], "left")


def outcomes(messages: DataFrame) -> DataFrame:
    """How it went for each trace and agent: open if a message has not ended, dead if one is, completed if one is
    completed, else cancelled."""
    status = F.col("status")
    return (
        messages.where(F.col("agent").isNotNull())
        .groupBy("trace", "agent")
        .agg(
            F.when(F.bool_or(status.isin("pending", "held", "processing")), "open")
            .when(F.bool_or(status == "dead"), "dead")
            .when(F.bool_or(status == "completed"), "completed")
            .otherwise("cancelled")
            .alias("outcome")
        )
    )
