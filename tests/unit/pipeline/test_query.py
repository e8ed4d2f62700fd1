from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StructField, StructType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.query import repeated, require_query


@pytest.mark.parametrize(
    "sql", ["", ";", "drop view events", "insert into events values (1)", "create table x (a int)"]
)
def test_what_does_not_begin_as_a_query_is_refused(sql: str) -> None:
    with pytest.raises(PipelineError, match="only queries can be run"):
        require_query(sql)


def test_a_query_loses_only_its_end() -> None:
    assert require_query("  SELECT ';' from events ; \n") == "SELECT ';' from events"


def struct(*names: str, of: DataType | None = None) -> StructType:
    return StructType([StructField(name, of or LongType()) for name in names])


@pytest.mark.parametrize(
    ("schema", "exact", "any_case"),
    [
        (struct("a", "b", of=struct("a")), None, None),
        (struct("a", "b", "a"), "a", "a"),
        (struct("a", "A"), None, "A"),
        (struct("a", of=struct("x", of=ArrayType(struct("z", "z")))), "z", "z"),
        (struct("a", of=MapType(LongType(), struct("k", "K"))), None, "K"),
    ],
)
def test_a_name_that_stands_twice_is_found(schema: StructType, exact: str | None, any_case: str | None) -> None:
    assert (repeated(schema), repeated(schema, any_case=True)) == (exact, any_case)
