"""Counting by days."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.transforms.traces import day_of


def dated(rows: DataFrame, at: str) -> DataFrame:
    """The rows whose time is known, with the day of that time instead of their trace's."""
    return rows.where(F.col(at).isNotNull()).withColumn(DAY, day_of(at))


def count_if(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def total(amount: str) -> Column:
    """What is known of it, summed up; NULL if nothing is, or if no number of ours is so large: one desk's word must not
    stop the others' tables."""
    return F.try_sum(amount)


def dollars(micro: str) -> Column:
    """What is known of the cost, summed up; NULL if nothing is. As decimals: no sum of costs is too large for them."""
    return F.sum(F.col(micro).cast("decimal(19, 0)")).cast("double") / 1_000_000


def unknown_cost() -> Column:
    """Of runs: how many have ended and did not say what they cost."""
    return count_if(F.col("outcome").isNotNull() & F.col("cost_microusd").isNull())


def side_by_side(keys: list[str], *parts: DataFrame) -> DataFrame:
    """One row for each key that any part has."""
    return reduce(lambda one, other: one.join(other, keys, "full"), parts)


def filled(spec: TableSpec, rows: DataFrame) -> DataFrame:
    """The columns of the table; a count that nothing was found for is 0."""
    return rows.select(
        *(
            F.col(column.name).cast(column.type)
            if column.nullable or isinstance(column.type, StringType)
            else F.coalesce(F.col(column.name), F.lit(0)).cast(column.type).alias(column.name)
            for column in spec.columns
        )
    )
