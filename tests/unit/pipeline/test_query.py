from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StructField, StructType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.comments import past_comments
from manydesks.pipeline.query import repeated, require_query


@pytest.mark.parametrize(
    "sql", ["", ";", "drop view events", "insert into events values (1)", "create table x (a int)"]
)
def test_what_does_not_begin_as_a_query_is_refused(sql: str) -> None:
    with pytest.raises(PipelineError, match="only queries can be run"):
        require_query(sql)


def test_a_query_loses_only_its_end() -> None:
    assert require_query("  SELECT ';' from events ; \n") == "SELECT ';' from events"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("select 1", "select 1"),
        ("/* a /* b */ */ select 1", "select 1"),
        ("/*/* /* */ a */*/-- /*\n/**/ select /* b */ 1", "select /* b */ 1"),
        ("/* a /*+ b */ select 1", "select 1"),
        ("/* -- */ select 1", "select 1"),
        ("/*/ */ select 1", "select 1"),
        ("-- a\rselect 1", "select 1"),
        ("-- a\\\nb\nselect 1", "select 1"),
        # not one of these is a query to Spark
        ("/*+ a */ select 1", "/*+ a */ select 1"),
        ("/* a */ */ select 1", "*/ select 1"),
        ("/* a /* b */ select 1", ""),
        ("/* a", ""),
        ("-- a\\\nselect 1", ""),
        ("", ""),
    ],
)
def test_comments_are_read_as_spark_does(text: str, left: str) -> None:
    assert past_comments(text) == left


def test_many_comments_take_no_time() -> None:
    assert past_comments("/*" * 100_000 + "*/" * 100_000 + "-- \n" * 100_000 + "x") == "x"


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
