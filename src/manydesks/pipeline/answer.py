"""An answer of Spark in types that a Python process can take.

Spark has values that Python has not: moments before the year 1 and after 9999, months as a length of time, maps whose
keys are lists. And of a moment pyspark makes one by the clock of this machine, whatever zone the session has. So what
is no number, text or truth is written as text by Spark itself, before it comes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    AnsiIntervalType,
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DataType,
    DatetimeType,
    MapType,
    SpatialType,
    StructField,
    StructType,
    VariantType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: days, moments, times of a day, and lengths of time
TIMES = (DatetimeType, AnsiIntervalType, CalendarIntervalType)


def collectable(frame: DataFrame) -> DataFrame:
    """The same rows under the same names: times as text in the session's zone, bytes as hexadecimal digits,
    geometries as those of their WKB (Spark writes no WKT), variants as JSON, and a map's keys as JSON where they are
    nested. Nothing is run."""
    types = [field.dataType for field in frame.schema.fields]
    if not any(map(_foreign, types)):
        return frame
    numbered = frame.toDF(*map(str, range(len(types))))  # columns may have the same name
    return numbered.select(*(_own(F.col(str(at)), type).alias(frame.columns[at]) for at, type in enumerate(types)))


def _foreign(type: DataType, *, key: bool = False) -> bool:
    """Whether values of it are to be written as text, or have such in them."""
    if isinstance(type, ArrayType):
        return key or _foreign(type.elementType)
    if isinstance(type, MapType):
        return _foreign(type.keyType, key=True) or _foreign(type.valueType)
    if isinstance(type, StructType):
        return key or any(_foreign(field.dataType) for field in type.fields)
    return isinstance(type, (*TIMES, BinaryType, SpatialType, VariantType))


def _own(column: Column, type: DataType) -> Column:
    if not _foreign(type):
        return column
    if isinstance(type, ArrayType):
        inner = type.elementType
        return F.transform(column, lambda one: _own(one, inner))
    if isinstance(type, MapType):
        keys, values = type.keyType, type.valueType
        found = F.transform_values(column, lambda _, value: _own(value, values)) if _foreign(values) else column
        return F.transform_keys(found, lambda key, _: _own_key(key, keys)) if _foreign(keys, key=True) else found
    if isinstance(type, StructType):
        # by number: Spark takes `a` and `A` for the same name
        parts = column.cast(_numbered(type))
        fields = [_own(parts[f"_{at}"], field.dataType).alias(field.name) for at, field in enumerate(type.fields)]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(type, BinaryType):
        return F.lower(F.hex(column))
    if isinstance(type, SpatialType):
        return F.lower(F.hex(F.st_asbinary(column)))
    return F.to_json(column) if isinstance(type, VariantType) else column.cast("string")


def _own_key(key: Column, type: DataType) -> Column:
    own = _own(key, type)
    nested = isinstance(type, ArrayType | StructType)
    # with its NULLs, or two keys could become one
    return F.to_json(own, {"ignoreNullFields": "false"}) if nested else own


def _numbered(type: StructType) -> StructType:
    return StructType([StructField(f"_{at}", field.dataType, field.nullable) for at, field in enumerate(type.fields)])
