"""SQL over the lake."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, PySparkException

from manydesks.cli.pipeline.cells import plain_cell, text_cell
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.harmless import CALLING
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.packing import write_rows
from manydesks.pipeline.query import query, query_rows, query_to_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Ledger

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def filled(
    tmp_path_factory: pytest.TempPathFactory, make_ledger: Callable[[Path], Ledger], spark: SparkSession
) -> Path:
    """One for all: whoever asks only reads."""
    folder = tmp_path_factory.mktemp("filled")
    ledger, lake = make_ledger(folder / "office.db"), folder / "lake"
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


def test_a_query_sees_the_newest_snapshot(lake: Path, ledger: Ledger, spark: SparkSession) -> None:
    for added, seq in ((10, 10), (1, 11)):
        ledger.add(added)
        archive(ledger.path, lake, spark, lambda *_: None)
        assert query(lake, "select max(seq) from events", spark).rows == ((seq,),)


def test_empty_tables_can_be_asked(ledger: Ledger, lake: Path, spark: SparkSession) -> None:
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
        ("select from_xml('<a/>', 'b int', map('rowValidationXSDPath', '/etc/passwd'))", "from_xml"),
        ("select schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))", "schema_of_xml"),
        # a document's type may lie anywhere, on any machine
        ("select xpath_string('<!DOCTYPE x SYSTEM \"file://{file}\"><x/>', 'x')", "xpath_string"),
        ("select XPath('<!DOCTYPE x SYSTEM \"http://127.0.0.1:1/\"><x/>', 'x/@a')", "xpath"),
        ("select xpath_number(text, 'x') from transcripts", "xpath_number"),
        ("select from_avro(x'00', 'int', map('avroSchemaUrl', 'file://{file}'))", "from_avro"),
        ("select from_protobuf(x'00', 'a', '{file}')", "from_protobuf"),
        ("select identifier('reflect')('java.lang.System', 'setProperty', 'md.test', 'x')", "identifier(…)"),
        ("select identifier('seq') from events", "identifier(…)"),
        ("select * from identifier('range')(3)", "identifier(…)"),
        ("select * from identifier('ev' || 'ents')", "identifier(…)"),
        ("select identifier('java_' || 'method')('java.lang.System', 'setProperty', 'md.test', 'x')", "identifier(…)"),
    ],
)
def test_a_query_only_reads(filled: Path, spark: SparkSession, tmp_path: Path, sql: str, words: str) -> None:
    file = tmp_path / "made"
    with pytest.raises(PipelineError) as refused:
        query(filled, sql.replace("{file}", str(file)), spark)
    assert f"`{words}` could do more than that" in str(refused.value)
    assert not file.exists()
    assert spark._jvm is not None
    assert spark._jvm.java.lang.System.getProperty("md.test") is None


#: where a value may stand in a query
PLACES = (
    "from values ('x') t(a) |> set a = {value}",
    "with o as (from values ('x') t(a) |> set a = {value}) select * from o",
    "from values ('x') t(a) |> extend {value} as b",
    "from values ('x') t(a) |> where {value} = 'x'",
    "from values ('x') t(a) |> select {value} as b",
    "from values ('x') t(a) |> aggregate max({value}) as b group by a",
    "from values ('x') t(a) |> aggregate group by {value} as b",
    "from values ('x') t(a) |> join values ('y') u(b) on a = {value}",
    "from values ('x') t(a) |> order by {value}",
    "from values ('x') t(a) |> limit length({value})",
    "from values ('x') t(a) |> union all (select {value})",
    "from values ('x') t(a) |> select count(*) over w as n window w as (order by {value})",
    "from values ('x') t(a) |> pivot (max({value}) for a in ('x'))",
    "from values ('x') t(a) |> tablesample (10 percent) |> set a = {value} |> drop a",
    "select count(*) over w from values (1) t(a) window w as (order by {value})",
    "select count(*) over w from values (1) t(a) window v as (order by a), w as (partition by {value})",
    "select * from (select count(*) over w from values (1) t(a) window w as (order by {value}))",
    "select (select count(*) over w from values (1) t(a) window w as (order by {value}))",
    "select count(*) over (order by {value}) from events",
    "select * from events lateral view explode(array({value})) e as f",
    "select * from events, lateral (select {value})",
    "select * from events join lateral explode(array({value}))",
    "select * from explode(array({value}))",
    "select * from range(length({value}))",
    "select * from stack(1, {value})",
    "select * from (select kind, seq from events) pivot (max({value}) for kind in ('x'))",
    "select * from (select kind, seq from events) pivot (max(seq) for kind in ({value}))",
    "select kind from events group by kind having max({value}) = 'x'",
    "select kind from events group by grouping sets (({value}), (kind))",
    "select kind from events group by cube ({value})",
    "select count(*) filter (where {value} = 'x') from events",
    "select listagg(kind) within group (order by {value}) from events",
    "select kind from events qualify row_number() over (order by {value}) = 1",
    "values ({value})",
    "select * from values (1, {value}) t(a, b)",
    "table events |> set kind = {value}",
    "with recursive r(n) as (select 1 union all select n + 1 from r where {value} = 'x') select * from r",
    "with recursive r(n) as (select length({value}) union all select n + 1 from r where n < 3) select * from r",
    "select kind from events order by {value}",
    "select kind from events sort by {value}",
    "select kind from events distribute by {value}",
    "select kind from events cluster by {value}",
    "select kind from events limit length({value})",
    "select kind from events limit 1 offset length({value})",
    "select * from events tablesample (length({value}) rows)",
    "select * from events timestamp as of {value}",
    "select * from events timestamp as of (select {value})",
    "select transform(array('x'), x -> x || {value})",
    "select case when true then {value} end, if(true, {value}, 'x'), {value} in ('x'), 'x' in ({value})",
    "select cast({value} as string)::string, struct({value}).col1, array('x')[length({value})], {value} like 'x'",
    "select * from events where exists (select 1 from bodies where text = {value})",
    "select * from events join bodies on text = {value}",
    "select 1 except select 1 where {value} = 'x'",
    "from events select {value}",
    "(select {value})",
    "select * except (kind), {value} from events",
    "select /*+ broadcast(b) */ {value} from bodies b",
    "select upper(/* reflect */ {value} -- using\n)",
)
VALUES = {
    "(select transform(b) using 'touch {file}; cat' as (c string) from values ('z') u(b))": "transform … using",
    # Spark reads the long s as an S
    '(from values (1) u(b) |> set b = (from events map seq u\u017fing "touch {file}; cat" as (c string)))': (
        "transform … using"
    ),
    "reflect('java.lang.System', 'setProperty', 'md.test', 'x')": "reflect",
    "system.builtin.`Java_Method`('java.lang.System', 'setProperty', 'md.test', 'x')": "java_method",
    "identifier('try_' || 'reflect')('java.lang.System', 'setProperty', 'md.test', 'x')": "identifier(…)",
}


#: a program and a call at every place; what is found in the same way as one of them is there only in the deep run
THOROUGHLY = [value for value in VALUES if value.startswith(("(select", "reflect"))]


@pytest.mark.parametrize(
    ("value", "places"),
    [
        *(pytest.param(value, PLACES if value in THOROUGHLY else PLACES[:6], id=value) for value in VALUES),
        *(
            pytest.param(value, PLACES[6:], id=f"{value} everywhere", marks=pytest.mark.deep)
            for value in VALUES
            if value not in THOROUGHLY
        ),
    ],
)
def test_a_query_only_reads_wherever_it_is_hidden(
    filled: Path, spark: SparkSession, tmp_path: Path, value: str, places: tuple[str, ...]
) -> None:
    file = tmp_path / "made"
    said = {}
    for place in places:
        with pytest.raises(PipelineError) as refused:
            query(filled, place.replace("{value}", value).replace("{file}", str(file)), spark)
        said[place] = str(refused.value)
    sentence = f"`{VALUES[value]}` could do more than that"
    assert {place: words for place, words in said.items() if sentence not in words} == {}
    assert not file.exists()
    assert spark._jvm is not None
    assert spark._jvm.java.lang.System.getProperty("md.test") is None


@pytest.mark.parametrize(
    "sql",
    [
        "execute immediate 'select transform(1) using \\'touch {file}\\' as b'",
        "(execute immediate 'select transform(1) using \\'touch {file}\\' as b')",
        "with a as (execute immediate 'select transform(1) using \\'touch {file}\\' as b') select * from a",
        "begin select transform(1) using 'touch {file}' as b; end",
        "declare variable v = (select transform(1) using 'touch {file}' as b)",
        "set var v = (select transform(1) using 'touch {file}' as b)",
        "with a as (select 1) select 1; begin select transform(1) using 'touch {file}' as b; end",
        "from events insert overwrite directory '{file}' select transform(1) using 'cat' as b",
        "from events |> insert into bodies",
        "select * from events version as of (select transform(1) using 'touch {file}' as b)",
        "select sum(1) over (rows (select transform(1) using 'touch {file}' as b) preceding)",
        "select transform(1) using :script as b",
        "select transform(1) using ? as b",
    ],
)
def test_what_is_no_query_starts_nothing(filled: Path, spark: SparkSession, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "made"
    with pytest.raises(PipelineError):
        query(filled, sql.replace("{file}", str(file)), spark)
    assert not file.exists()


def test_a_session_that_queries_has_nothing_that_calls_into_java(filled: Path, spark: SparkSession) -> None:
    """Wherever it may be hidden: the second net, for what is not seen in the plan."""
    query(filled, "select 1", spark)
    for name in CALLING:
        with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
            spark.sql(f"select {name}('java.lang.System', 'setProperty', 'md.test', 'x')")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select transform(array(1), x -> x + 1)", [([2],)]),
        ("from values ('x') t(a) |> set a = upper(a)", [("X",)]),
        ("select 'reflect(1) using', \"identifier('a')\" as `using`", [("reflect(1) using", "identifier('a')")]),
        ("select `reflect` from values (1) t(reflect)", [(1,)]),
        ("select identifier from values (1) t(identifier)", [(1,)]),
        ("select count(*) from identifier('events')", [(10,)]),
        ("with a as (select 1) select * from identifier('a')", [(1,)]),
        ("select a, b from values (1, 2) t(a, b) join values (1) u(a) using (a)", [(1, 2)]),
        ("from values (1, 2) t(a, b) |> join values (1) u(a) using (a) |> extend a + b as c", [(1, 2, 3)]),
        ("select a, count(*) over w from values (1), (2) t(a) window w as (order by a)", [(1, 1), (2, 2)]),
        ("select map(1, 2), reduce(array(1, 2), 0, (s, x) -> s + x) as using", [({1: 2}, 3)]),
    ],
)
def test_a_query_may_have_the_words_of_what_is_refused(
    filled: Path, spark: SparkSession, sql: str, rows: list[tuple[object, ...]]
) -> None:
    assert query(filled, sql, spark).rows == tuple(rows)


def test_a_query_reads_the_lake_and_no_other_file(filled: Path, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "secrets.toml").write_text("key = 1")
    for kind in ("text", "csv", "binaryFile"):
        with pytest.raises(PipelineError, match="the lake has no table"):
            query(filled, f"select * from {kind}.`{tmp_path}/secrets.toml`", spark)


def test_a_query_gets_nothing_of_the_environment_and_the_settings(filled: Path, spark: SparkSession) -> None:
    words = ("${env:PATH}", "${spark.app.name}", "${system:user.home}", "${sparkconf:spark.master}")
    found = query(filled, f"select {', '.join(map(repr, words))}", spark)
    assert found.rows == (words,)


#: the point 1 2, as WKB
POINT = "0101000000000000000000f03f0000000000000040"


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is not UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_east")
@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        ("timestamp_millis(1700000000123)", ["2023-11-14 22:13:20.123"]),
        ("timestamp'+10000-01-01', timestamp'-0001-01-01'", ["+10000-01-01 00:00:00", "-0001-01-01 00:00:00"]),
        ("timestamp_ntz'+10000-01-01', date'0000-02-03'", ["+10000-01-01 00:00:00", "0000-02-03"]),
        ("time'12:00:01.5'", ["12:00:01.5"]),
        ("interval '1' year, interval -3 month", ["INTERVAL '1' YEAR", "INTERVAL '-3' MONTH"]),
        ("interval '1 2:03:04' day to second", ["INTERVAL '1 02:03:04' DAY TO SECOND"]),
        ("make_interval(1, 2, 3, 4)", ["1 years 2 months 25 days"]),
        ("map(struct(1), 2), map(array(1), 2)", [{'{"col1":1}': 2}, {"[1]": 2}]),
        ("map(named_struct('a', array(X'00FF'), 'b', cast(null as int)), 2)", [{'{"a":["00ff"],"b":null}': 2}]),
        ("map(date'+10000-01-01', interval 1 day)", [{"+10000-01-01": "INTERVAL '1' DAY"}]),
        ("map(1.5, true), map(X'0A', X'FF')", [{"1.5": True}, {"0a": "ff"}]),
        ("array(named_struct('a', date'+10000-01-01', 'A', 1), null)", [[{"a": "+10000-01-01", "A": 1}, None]]),
        ("array(map(array(date'2026-01-01'), map(array(1), 2)))", [[{'["2026-01-01"]': {"[1]": 2}}]]),
        ("cast(null as map<array<int>, date>), cast(null as struct<a: date>)", [None, None]),
        ("parse_json('[1, 2]'), to_variant_object(struct(date'+10000-01-01'))", ["[1,2]", '{"col1":"+10000-01-01"}']),
        ("1 as a, date'2026-01-02' as a, 3 as A", [1, "2026-01-02", 3]),
        (f"st_geomfromwkb(X'{POINT}'), st_geogfromwkb(X'{POINT}'), cast(null as geometry(0))", [POINT, POINT, None]),
        (
            f"array(st_geomfromwkb(X'{POINT}'), null), map('a', st_geomfromwkb(X'{POINT}'), 'b', null)",
            [[POINT, None], {"a": POINT, "b": None}],
        ),
        (
            f"named_struct('a', st_geogfromwkb(X'{POINT}')), map(st_geomfromwkb(X'{POINT}'), 1)",
            [{"a": POINT}, {POINT: 1}],
        ),
    ],
)
def test_what_python_has_no_value_for_is_text(filled: Path, spark: SparkSession, sql: str, cells: list[object]) -> None:
    """In a table, in JSON and in CSV; and a moment is UTC wherever the machine stands."""
    found = query(filled, f"select {sql}", spark)
    assert [plain_cell(cell) for cell in found.rows[0]] == cells
    columns, rows = query_rows(filled, f"select {sql}", spark)
    assert (columns, tuple(rows)) == (found.columns, found.rows)
    texts = [text_cell(cell) for cell in found.rows[0]]
    assert texts == [json.dumps(cell) if isinstance(cell, dict | list) else cell for cell in cells]


@pytest.mark.parametrize(
    "before",
    [
        "-- of all\n",
        "/* of\nall */ ",
        " -- one\n /* two */-- three\n",
        "/* one /* two */ */ ",
        "/*/* /*one*/ -- */two*/",
        "/* one /*+ two */",
        "-- one\\\ntwo\n",
        "-- one\r",
    ],
)
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


@pytest.mark.usefixtures("far_east")
def test_rows_that_come_through_this_process_make_the_same_file(
    filled: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """As they do from a cluster; a file that the executors write is the measure."""
    sql = (
        "select seq, kind, timestamp_millis(at) as at, timestamp'+10000-01-01' as far, date'-0001-01-01' as long_ago,"
        " map(array(seq), X'00') as nested, named_struct('a', cast(seq as decimal(20, 2)), 'b', null) as pair,"
        " seq * 1.5 from events order by seq desc"
    )
    written, packed = tmp_path / "written.parquet", tmp_path / "packed.parquet"
    assert query_to_parquet(filled, sql, spark, written, tmp_path / "scratch") == 10
    for name in ("events", "bodies"):
        assert spark.catalog.tableExists(name)  # the views of the query before
    assert write_rows(spark.sql(sql), packed) == 10
    found, expected = pq.read_table(packed), pq.read_table(written)
    assert found.column_names == expected.column_names
    for name in found.column_names:
        one = found.column(name).cast(expected.schema.field(name).type)
        assert one.combine_chunks().equals(expected.column(name).combine_chunks()), name
    assert found.column("seq").to_pylist() == list(range(10, 0, -1))
    assert write_rows(spark.sql("select 1 as a where 1 = 0"), packed) == 0
    assert pq.read_table(packed).column_names == ["a"]
    with pytest.raises(PySparkException, match="not supported in conversion to Arrow"):
        write_rows(spark.sql("select interval 1 month"), packed)


def test_what_parquet_has_no_type_for_is_one_sentence(filled: Path, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="the answer cannot be written as Parquet: ") as refused:
        query_to_parquet(filled, "select map()", spark, tmp_path / "a.parquet", tmp_path / "scratch")
    assert "\n" not in str(refused.value)


def test_no_lake_is_one_sentence(lake: Path, spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="has no tables yet"):
        query(lake, "select 1", spark)
