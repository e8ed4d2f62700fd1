"""The lake's columns are those of the store's exported views, whatever either side changes."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import apsw
from pyspark.sql.types import LongType, StringType, StructField, StructType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.schemas import BODIES, EVENTS, TABLES, check_schema
from manydesks.pipeline.sources.ledger import VIEWS
from manydesks.store.migrations import m0001_office

TYPES = {"INTEGER": LongType(), "TEXT": StringType()}


@pytest.mark.parametrize("view", list(VIEWS.values()), ids=list(VIEWS))
def test_a_table_has_the_columns_of_its_view(view: object) -> None:
    assert view in VIEWS.values()
    db = apsw.Connection(":memory:")
    m0001_office.apply(db)
    stored = [(name, TYPES[kind.upper()]) for _, name, kind, *_ in db.execute(f"pragma table_info({view.name})")]  # type: ignore[attr-defined]
    assert [(column.name, column.dataType) for column in view.table.schema.fields] == stored  # type: ignore[attr-defined]


def test_only_what_the_ledger_promises_is_never_null() -> None:
    assert [column.name for column in EVENTS.schema if not column.nullable] == ["seq", "at", "kind"]
    assert [column.name for column in BODIES.schema if not column.nullable] == ["id"]


def test_names_and_folders_are_unique() -> None:
    assert all(name == spec.name for name, spec in TABLES.items())
    assert len({spec.folder for spec in TABLES.values()}) == len(TABLES)


@pytest.mark.parametrize(
    "columns",
    [
        [StructField("id", LongType()), StructField("text", StringType())],
        [StructField("id", LongType()), StructField("text", LongType()), StructField("erased_at", LongType())],
        [StructField("text", StringType()), StructField("id", LongType()), StructField("erased_at", LongType())],
    ],
    ids=["missing", "type", "order"],
)
def test_rows_of_another_shape_are_refused(columns: list[StructField]) -> None:
    check_schema(BODIES.schema, BODIES)
    with pytest.raises(PipelineError, match="rows for the table 'bodies'"):
        check_schema(StructType(columns), BODIES)
