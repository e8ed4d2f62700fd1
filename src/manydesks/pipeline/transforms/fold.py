"""Rows of one key become one row. It does not matter how often, or in which parts: that is what makes a table that grew
run by run equal to one that was made anew."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.columns import DAY, Column, TableSpec


def partial(spec: TableSpec, rows: DataFrame, **given: SparkColumn) -> DataFrame:
    """Rows for `merged`, from events: the folded columns that are given, the others NULL."""
    return rows.select(*_given(spec, given))


def part(spec: TableSpec, **given: SparkColumn) -> SparkColumn:
    """One such row as a value, for an event that gives several."""
    return F.struct(*_given(spec, given))


def _given(spec: TableSpec, given: Mapping[str, SparkColumn]) -> list[SparkColumn]:
    folded = [column for column in spec.columns if column.fold != "made"]
    if strange := given.keys() - {column.name for column in folded}:
        raise ValueError(f"the table '{spec.name}' has no column {', '.join(sorted(strange))}")
    return [given.get(c.name, F.lit(None)).cast(c.type).alias(c.name) for c in folded]


def merged(spec: TableSpec, rows: DataFrame, *more: str) -> DataFrame:
    """One row for each key; of the columns that are `made`, only the day, if the rows have it.

    `more`: further columns that are the same in all rows of a key, and are kept.
    """
    keys = [column.name for column in spec.columns if column.fold == "key"]
    made = [DAY] if DAY in rows.columns else []
    folds = [_fold(column) for column in spec.columns if column.fold not in ("key", "made")]
    # the day of old rows is known, that of new ones is the same or not known yet
    kept = [F.max(name).alias(name) for name in (*made, *more)]
    return rows.groupBy(*keys).agg(*kept, *folds)


def _fold(column: Column) -> SparkColumn:
    name, fold = column.name, column.fold
    kind, _, by = fold.partition(":")
    match kind:
        case "one" | "max":
            value = F.max(name)
        case "min":
            value = F.min(name)
        case "sum":
            value = F.sum(name)
        case "first":
            value = F.min_by(name, by)
        case "last":
            value = F.max_by(name, by)
        case _:
            raise ValueError(f"the column '{name}' has the fold '{fold}'")
    return value.cast(column.type).alias(name)
