"""SQL over the lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.query import query, query_rows, query_to_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def filled(ledger: Any, lake: Path, spark: SparkSession) -> Path:
    ledger.add(6, kind="message_dead")
    ledger.add(4, kind="agent_added")
    archive(ledger.path, lake, spark, lambda *_: None)
    return lake


def test_the_tables_are_views(filled: Path, spark: SparkSession) -> None:
    found = query(filled, "select kind, count(*) as n from events group by kind order by n desc", spark)
    assert found.columns == ("kind", "n")
    assert found.rows == (("message_dead", 6), ("agent_added", 4))
    joined = query(filled, "select count(*) from events e join bodies b on b.id = e.body; ", spark)
    assert joined.rows == ((3,),)
    assert query(filled, "with one as (select * from pipeline_runs) select job from one -- end", spark).rows == (
        ("archive",),
    )


def test_a_query_sees_the_newest_snapshot(filled: Path, ledger: Any, spark: SparkSession) -> None:
    assert query(filled, "select max(seq) from events", spark).rows == ((10,),)
    ledger.add(1)
    archive(ledger.path, filled, spark, lambda *_: None)
    assert query(filled, "select max(seq) from events", spark).rows == ((11,),)


def test_empty_tables_can_be_asked(ledger: Any, lake: Path, spark: SparkSession) -> None:
    archive(ledger.path, lake, spark, lambda *_: None)
    assert query(lake, "select * from events", spark).rows == ()


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("select * from evnts", "has no table 'evnts'; did you mean 'events'?"),
        ("select * from zzz", "has no table 'zzz'; it has events, bodies, pipeline_runs."),
        ("select nope from events", "`nope` cannot be resolved"),
        ("select count( from events", "not a query that Spark understands: Syntax error"),
        ("select 1/0", "the query failed: Division by zero"),
        ("", "only queries can be run"),
        ("drop view events", "only queries can be run"),
        ("insert overwrite directory '{tmp}/out' select 1", "only queries can be run"),
        ("with one as (select 1) insert into events select * from one", "Syntax error at or near 'insert'"),
        ("select 1; drop view events", "Syntax error"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(
    filled: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str], tmp_path: Path, sql: str, sentence: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        query(filled, sql.replace("{tmp}", str(tmp_path)), spark)
    said = str(refused.value)
    assert sentence in said
    assert "\n" not in said
    assert "SQLSTATE" not in said
    assert not (tmp_path / "out").exists()
    assert capfd.readouterr() == ("", "")
    assert query(filled, "select count(*) from events", spark).rows == ((10,),)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select transform(seq) using 'touch {file}; cat' as b from events", "transform … using"),
        ("from events reduce seq using 'touch {file}; cat' as b", "transform … using"),
        ("with a as (select transform(1) using 'touch {file}' as b) select * from a", "transform … using"),
        ("select 1 where exists (select transform(1) using 'touch {file}' as b)", "transform … using"),
        ("select (select java_method('java.lang.System', 'setProperty', 'md.test', 'x'))", "java_method"),
        ("values (REFLECT('java.lang.System', 'setProperty', 'md.test', 'x'))", "reflect"),
        ("select * from range(try_reflect('java.lang.System', 'setProperty', 'md.test', 'x'))", "try_reflect"),
        ("select identifier('java_' || 'method')('java.lang.System', 'setProperty', 'md.test', 'x')", "identifier(…)"),
    ],
)
def test_a_query_only_reads(filled: Path, spark: SparkSession, tmp_path: Path, sql: str, words: str) -> None:
    file = tmp_path / "made"
    with pytest.raises(PipelineError) as refused:
        query(filled, sql.replace("{file}", str(file)), spark)
    assert f"`{words}` could do anything" in str(refused.value)
    assert not file.exists()
    assert spark._jvm is not None
    assert spark._jvm.java.lang.System.getProperty("md.test") is None


def test_a_query_reads_the_lake_and_no_other_file(filled: Path, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "secrets.toml").write_text("key = 1")
    for kind in ("text", "csv", "binaryFile"):
        with pytest.raises(PipelineError, match="the lake has no table"):
            query(filled, f"select * from {kind}.`{tmp_path}/secrets.toml`", spark)


def test_a_query_gets_nothing_of_the_environment_and_the_settings(filled: Path, spark: SparkSession) -> None:
    words = ("${env:PATH}", "${spark.app.name}", "${system:user.home}", "${sparkconf:spark.master}")
    found = query(filled, f"select {', '.join(map(repr, words))}", spark)
    assert found.rows == (words,)


@pytest.mark.parametrize("before", ["-- of all\n", "/* of\nall */ ", " -- one\n /* two */-- three\n"])
def test_a_comment_may_come_first(filled: Path, spark: SparkSession, before: str) -> None:
    assert query(filled, f"{before}select count(*) from events", spark).rows == ((10,),)


def test_names_that_stand_twice_are_refused_before_anything_is_run(
    filled: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """Each of these would fail in its first row, if it came so far."""
    file, scratch = tmp_path / "new.parquet", tmp_path / "scratch"
    for sql, name in (("select 1/0 as a, 2 as A", "A"), ("select 1/0, named_struct('b', 1, 'b', 2) as s", "b")):
        with pytest.raises(PipelineError, match=f"has the name '{name}' twice, and in a Parquet file each needs its"):
            query_to_parquet(filled, sql, spark, file, scratch)
    assert not file.exists()
    assert not scratch.exists()
    for ask in (query, query_rows):
        with pytest.raises(PipelineError, match="has the name 'b' twice, and in the column 's' each needs its own"):
            ask(filled, "select 1/0, named_struct('b', 1, 'b', 2) as s", spark)
    assert query(filled, "select 1 as a, 2 as a", spark).rows == ((1, 2),)


def test_no_lake_is_one_sentence(lake: Path, spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="has no tables yet"):
        query(lake, "select 1", spark)
