"""Events as transforms read them: those of some kinds, with the fields of their data that are asked for."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

#: fields of `data` that are no text; whatever is not of its type is NULL
_WHOLE = (
    "hop priority attempt queue_ms duration_ms response part bytes files next_at input output cache_read cache_write"
)
_TYPES = {
    **dict.fromkeys(_WHOLE.split(), LongType()),
    "ok": BooleanType(),
    "cost_usd": DoubleType(),
}


def events_of(events: DataFrame, kinds: str, fields: str = "") -> DataFrame:
    """The events of these kinds that have a trace; the fields of `data` are columns `d_<field>`."""
    found = events.where(F.col("trace").isNotNull() & F.col("kind").isin(kinds.split()))
    names = fields.split()
    if not names:
        return found
    shape = StructType([StructField(name, _TYPES.get(name, StringType())) for name in names])
    read = found.withColumn("d", F.from_json("data", shape))
    return read.select("*", *(F.col(f"d.{name}").alias(f"d_{name}") for name in names))


def when(kinds: str, value: Column | str) -> Column:
    """The value, for events of these kinds; else NULL."""
    return F.when(F.col("kind").isin(kinds.split()), F.col(value) if isinstance(value, str) else value)


def one(kinds: str) -> Column:
    """1 for events of these kinds; else NULL, which adds nothing."""
    return when(kinds, F.lit(1))


def micro(dollars: str) -> Column:
    """Whole millionths of a dollar: their sum does not depend on its order."""
    return F.round(F.col(dollars) * 1_000_000).cast("long")
