"""Rows of one key become one row. It does not matter how often, or in which parts: that is what makes a table that grew
run by run equal to one that was made anew."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manydesks.pipeline.columns import DAY, Column, TableSpec


def partial(spec: TableSpec, rows: DataFrame, **given: str) -> DataFrame:
    """Rows for `merged`, from events: the folded columns that are given, in SQL, the others NULL."""
    return rows.selectExpr(*_given(spec, given))


def part(spec: TableSpec, **given: str) -> str:
    """One such row as a value, for an event that gives several."""
    return f"struct({', '.join(_given(spec, given))})"


def folded(spec: TableSpec, rows: DataFrame) -> DataFrame:
    """Rows of the table as `merged` takes them beside new ones: of what no fold gives, only the day."""
    made = [column.name for column in spec.columns if column.fold == "made" and column.name != DAY]
    return rows.drop(*made) if made else rows


def _given(spec: TableSpec, given: Mapping[str, str]) -> list[str]:
    wanted = [column for column in spec.columns if column.fold != "made"]
    if strange := given.keys() - {column.name for column in wanted}:
        raise ValueError(f"the table '{spec.name}' has no column {', '.join(sorted(strange))}")
    return [_typed(given.get(column.name, "null"), column) for column in wanted]


def _typed(value: str, column: Column) -> str:
    return f"cast({value} as {column.type.simpleString()}) as `{column.name}`"


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
    name, fold = f"`{column.name}`", column.fold
    kind, _, by = fold.partition(":")
    match kind:
        case "one" | "max":
            value = f"max({name})"
        case "min":
            value = f"min({name})"
        case "sum":
            # one that is too large for its type is unknown
            value = f"try_sum({name})"
        case "first":
            value = f"min_by({name}, `{by}`)"
        case "last":
            value = f"max_by({name}, `{by}`)"
        case _:
            raise ValueError(f"the column '{column.name}' has the fold '{fold}'")
    return F.expr(_typed(value, column))
