"""Percentiles that are the same however the rows lie: exact for small groups, with a stated error for large ones."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from manydesks.pipeline.gold import SHARES

#: up to so many values a group's percentiles are exact
EXACT = 10_000
#: of a larger group, the significant digits of a value that count
DIGITS = 4


def percentiles(rows: DataFrame, keys: list[str], value: str, prefix: str) -> DataFrame:
    """One row for each key that has a value: the columns `<prefix>_p50_ms`, `…_p95_ms`, `…_p99_ms`."""
    known = rows.where(F.col(value).isNotNull())
    counted = known.withColumn("in_group", F.count(F.lit(1)).over(Window.partitionBy(*keys)))
    kept = F.when(F.col("in_group") <= EXACT, F.col(value)).otherwise(rounded(F.col(value)))
    shares = F.array(*(F.lit(share / 100) for share in SHARES))
    found = counted.groupBy(*keys).agg(F.percentile(kept, shares).alias("found"))
    return found.select(*keys, *(F.col("found")[at].alias(f"{prefix}_p{p}_ms") for at, p in enumerate(SHARES)))


def rounded(value: Column) -> Column:
    """To the significant digits that count; whole numbers of up to as many digits stay as they are."""
    spare = F.greatest(F.length(F.abs(value).cast("string")) - DIGITS, F.lit(0))
    unit = F.pow(F.lit(10), spare)
    return (F.round(value / unit) * unit).cast("long")
