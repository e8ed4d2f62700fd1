"""What a table of the lake is: its columns, each with a sentence, and how its rows come together.

A table is written as lines of `name type fold sentence`. A type that ends in `!` may not be NULL. The fold says how the
values of one key are made one, whatever the order and the cut in which events arrive:

    key           what names the row
    one           one event alone gives it
    min, max      the least, the greatest
    sum           what is known adds up; NULL as long as nothing is
    first:c       of the row with the lowest `c`
    last:c        of the row with the highest `c`
    made          made from the other columns, after the rows came together
    -             the table is not folded
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

_TYPES: dict[str, DataType] = {"long": LongType(), "text": StringType(), "real": DoubleType(), "flag": BooleanType()}

#: of a table that is replaced day by day: the day of each row, the same for all rows of a file
DAY = "day"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column."""

    name: str
    type: DataType
    nullable: bool
    #: as above
    fold: str
    #: what it holds, for people
    says: str


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One table of the lake."""

    #: the name people use in SQL; unique in the lake
    name: str
    #: where it lies, below the lake's folder
    folder: str
    #: one sentence for people
    says: str
    columns: tuple[Column, ...]
    #: raised by one whenever other rows come of the same events, though the columns are the same
    making: int = 1

    @cached_property
    def schema(self) -> StructType:
        return StructType([StructField(column.name, column.type, column.nullable) for column in self.columns])

    @property
    def layer(self) -> str:
        """bronze, silver or gold; the table of runs belongs to none."""
        return self.folder.partition("/")[0]

    @property
    def by_day(self) -> bool:
        """Whether its files hold one day each, and are replaced by days."""
        return self.columns[0].name == DAY


def table(name: str, folder: str, says: str, columns: str, *, making: int = 1) -> TableSpec:
    """A table from its lines."""
    lines = columns.strip().splitlines()
    return TableSpec(name=name, folder=folder, says=says, columns=tuple(map(_column, lines)), making=making)


def _column(line: str) -> Column:
    name, kind, fold, says = line.split(maxsplit=3)
    return Column(name=name, type=_TYPES[kind.rstrip("!")], nullable=not kind.endswith("!"), fold=fold, says=says)
