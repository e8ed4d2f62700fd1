"""`channel_daily`: each channel's day."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.gold import CHANNEL_DAILY
from manydesks.pipeline.transforms.gold.days import count_if, dated, filled, side_by_side
from manydesks.pipeline.transforms.gold.percentiles import percentiles

KEYS = ["day", "channel"]
#: the column, and the state of a response that it counts
STATES = {"delivered": "acked", "dead": "dead", "unsure": "unsure", "expired": "expired"}


def of_silver(messages: DataFrame, responses: DataFrame) -> DataFrame:
    # a hand-off has the channel of its trace, and so has what the office tells an agent; neither came through it
    came = F.col("from_agent").isNull() & ~F.col("kind").eqNullSafe("system") & F.col("channel").isNotNull()
    arrived = dated(messages, "created_at").where(came)
    said = dated(responses, "created_at").where(F.col("channel").isNotNull())
    parts = side_by_side(
        KEYS,
        arrived.groupBy(*KEYS).agg(F.count(F.lit(1)).alias("messages")),
        said.groupBy(*KEYS).agg(
            F.count(F.lit(1)).alias("responses"),
            *(count_if(F.col("status") == state).alias(name) for name, state in STATES.items()),
        ),
        percentiles(said, KEYS, "delivery_ms", "delivery"),
    )
    return filled(CHANNEL_DAILY, parts)
