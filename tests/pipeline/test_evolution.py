"""What no version knows, and lakes of other versions: the older ones go on, the newer ones are left alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import deltalake

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import PipelineError, TableDamaged
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import COST_DAILY, GOLD
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.compact import compact
from manydesks.pipeline.jobs.runs import latest
from manydesks.pipeline.jobs.whole import RunReport, run
from manydesks.pipeline.lock import hold
from manydesks.pipeline.quality import check_ledger
from manydesks.pipeline.query import query
from manydesks.pipeline.report.write import report
from manydesks.pipeline.schemas import TABLES
from manydesks.pipeline.silver import MESSAGES, QUARANTINED_SPANS, SILVER, TRACES, USAGE
from manydesks.pipeline.tables import Mark
from manydesks.pipeline.writing import write_rows
from manydesks.testing.history import DAY_MS, Made, Shape, history

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Grown, Ledger, TableRows

    Contents = Callable[[Path], dict[str, list[tuple[Any, ...]]]]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

#: after all that the lake has
BEGINS = Shape(events=0).begins + 3 * DAY_MS
LATER = Shape(events=40, agents=2, days=1, seed=4, begins=BEGINS)


def bring(ledger: Ledger, lake: Path, spark: SparkSession) -> RunReport:
    return run(ledger.path, lake, spark, lambda *_: None)


@pytest.fixture(scope="module")
def contents(table_rows: TableRows) -> Contents:
    return lambda lake: {spec.name: table_rows(lake, spec) for spec in (*SILVER, *GOLD)}


def versions(lake: Path) -> dict[str, int]:
    return {spec.name: tables.version(lake, spec) for spec in tables.present(lake)}


def without(spec: TableSpec, *names: str) -> TableSpec:
    return replace(spec, columns=tuple(column for column in spec.columns if column.name not in names))


@pytest.fixture
def copy(grown: Grown, tmp_path: Path) -> Grown:
    return grown.copy(tmp_path)


@pytest.fixture
def lake(copy: Grown) -> Path:
    """One that this version has made."""
    return copy.lake


@pytest.fixture
def ledger(copy: Grown) -> Ledger:
    """The store that it was made of."""
    return copy.ledger


def downgrade(lake: Path, spec: TableSpec, spark: SparkSession, *names: str) -> None:
    """The table as a version made it that did not know these columns yet."""
    older = without(spec, *names)
    found = tables.read(spark, lake, spec).drop(*names).cache()
    mark = Mark(app=spec.name, version=tables.covered(lake, spec, spec.name))
    assert found.count()
    shutil.rmtree(lake / spec.folder)
    with hold(lake) as held:
        tables.ensure(held, older)
        if spec.by_day:
            tables.replace_days(held, older, found, None, mark, SystemClock(), made_of=found.count())
        else:
            write = partial(write_rows, found, older)
            tables.append_files_once(held, older, write, mark, SystemClock(), lambda written: None)
    found.unpersist()


def odd() -> list[Made]:
    """A kind, fields and types that no version knows, a run without a name, and a day that no calendar has."""
    at = BEGINS + 2 * DAY_MS
    about: dict[str, Any] = {"trace": "odd", "message": "m1", "agent": "agent-00", "session": "s"}
    stored = {"channel": "console", "sender": "ann", "kind": "chat", "hop": 0, "priority": 5}
    unknown = {"from_the_future": {"deep": [1, None]}, "channel": 7, "hop": "many", "sender": {"a": 1}, "kind": [1]}
    return [
        Made(at=at, kind="message_enqueued", **about, text="hello", data={**stored, "colour": "blue"}),
        Made(at=at + 1, kind="message_teleported", **about, data={"to": "mars"}),
        Made(at=at + 2, kind="message_received", **about, run="r1", data={"attempt": "first", "queue_ms": -1.5}),
        Made(at=at + 3, kind="message_completed", **about, run="r1", data={}),
        Made(at=at + 4, kind="message_enqueued", **{**about, "message": "m2"}, text="hi", data=unknown),
        Made(at=at + 5, kind="chain_step_start", **about, data={"attempt": 1}),
        Made(at=253_402_300_800_000, kind="message_enqueued", **{**about, "trace": "far", "message": "m3"}, text="so"),
    ]


def test_an_older_lake_is_brought_up_and_takes_what_no_version_knows(
    ledger: Ledger, lake: Path, spark: SparkSession, table_rows: TableRows, contents: Contents
) -> None:
    expected = contents(lake)
    # one that a fold needs, one that is only told of, and one of gold
    downgrade(lake, MESSAGES, spark, "team", "received_seq")
    downgrade(lake, USAGE, spark, "provider")
    downgrade(lake, COST_DAILY, spark, "cache_read_tokens")
    before = versions(lake)

    report = bring(ledger, lake, spark)
    assert contents(lake) == expected
    for spec in (MESSAGES, USAGE, COST_DAILY):
        found = tables.read(spark, lake, spec).select(*spec.schema.names).collect()
        assert sorted(map(tuple, found), key=repr) == expected[spec.name]
    written = {step.name for step in report.steps if step.rows}
    assert {"messages", "usage", "cost_daily"} <= written
    after = versions(lake)
    assert {name for name in ("runs", "responses", "spans") if after[name] != before[name]} == set()

    known = {row[1] for row in table_rows(lake, MESSAGES)}
    told = [*history(LATER), *odd()]
    ledger.tell(told)
    torn = '{"duration_ms": 5, "outc'
    ledger.execute("update events set data = ? where kind = 'message_completed' and trace = 'odd'", torn)
    bring(ledger, lake, spark)
    assert table_rows(lake, EVENTS) == sorted(ledger.events(), key=repr)
    messages = {row["message_id"]: row for row in tables.read(spark, lake, MESSAGES).collect()}
    assert messages.keys() == known | {event.message for event in told if event.kind == "message_enqueued"}
    first, second = messages["m1"], messages["m2"]
    assert (first["status"], first["channel"], first["hop"], first["attempts"]) == ("completed", "console", 0, 1)
    # what is of another type than it should be is text where text is wanted, and else unknown
    assert (second["status"], second["channel"], second["hop"], second["sender"]) == ("pending", "7", None, '{"a":1}')
    [trace] = tables.read(spark, lake, TRACES).where("trace = 'odd'").collect()
    assert trace["events"] == 6
    [bad] = [row for row in tables.read(spark, lake, QUARANTINED_SPANS).collect() if row["trace"] == "odd"]
    assert (bad["span_id"], bad["reason"]) == (f"unnamed:{ledger.events()[-2][0]}", "no message in its trace led to it")

    grown = contents(lake)
    run(ledger.path, lake, spark, lambda *_: None, rebuild=True)
    assert contents(lake) == grown


def test_a_table_whose_log_was_damaged_is_removed_and_made_anew(
    ledger: Ledger, lake: Path, spark: SparkSession, contents: Contents
) -> None:
    whole = contents(lake)
    for number, damaged in enumerate(((USAGE, COST_DAILY), (TRACES,))):
        for spec in damaged:
            for entry in (lake / spec.folder / "_delta_log").iterdir():
                entry.write_text("x")
            # a process of its own would read it anew
            (lake / spec.folder / "_delta_log" / "noticed").touch()
        with pytest.raises(TableDamaged, match="remove the folder"):
            bring(ledger, lake, spark)
        for spec in damaged:
            shutil.rmtree(lake / spec.folder)
        run(ledger.path, lake, spark, lambda *_: None, rebuild=number == 1)
        assert contents(lake) == whole


def test_a_damaged_file_is_one_sentence_and_a_rebuild_makes_it_anew(
    ledger: Ledger, lake: Path, spark: SparkSession, contents: Contents, tmp_path: Path
) -> None:
    """Of each layer; also where the file is read without Spark."""
    copy = shutil.copytree(lake, tmp_path / "copy")
    ledger.tell(history(LATER))
    for spec in (EVENTS, *SILVER, *GOLD, PIPELINE_RUNS):
        for number, file in enumerate(tables.files(copy, spec)):
            file.unlink() if number else file.write_bytes(file.read_bytes()[:50])

    def refused(work: Callable[[], Any]) -> str:
        with pytest.raises(PipelineError, match=r" of the table '\w+' cannot be read \(") as told:
            work()
        assert str(told.value).count("\n") == 0
        return str(told.value)

    archive_lost = "it is the archive itself"
    assert archive_lost in refused(lambda: bring(ledger, copy, spark))
    assert archive_lost in refused(lambda: check_ledger(copy, ledger.path))
    assert "the next run begins it anew" in refused(lambda: latest(copy))
    for path in tables.files(lake, EVENTS):
        shutil.copy(path, copy / Path(path).relative_to(lake))
    rebuild = "`manydesks pipeline rebuild` makes it anew"
    assert rebuild in refused(lambda: bring(ledger, copy, spark))
    assert "the next run begins it anew" in refused(lambda: compact(copy, lambda *_: None))
    assert rebuild in refused(lambda: report(copy, 92, str))
    sql = "select count(agent) from messages"
    assert rebuild in refused(lambda: query(copy, sql, spark))
    # what is whole can be asked
    assert query(copy, "select count(*) from EVENTS", spark).rows == ((len(ledger.events()),),)
    shutil.rmtree(copy / PIPELINE_RUNS.folder)
    run(ledger.path, copy, spark, lambda *_: None, rebuild=True)
    bring(ledger, lake, spark)
    assert contents(copy) == contents(lake)


def test_what_was_archived_before_a_column_was_there_has_none(ledger: Ledger, lake: Path, spark: SparkSession) -> None:
    downgrade(lake, EVENTS, spark, "session")
    known = tables.count(lake, EVENTS)
    ledger.tell(history(LATER))
    assert archive(ledger.path, lake, spark, lambda *_: None).from_seq == known
    found = {row["seq"]: row["session"] for row in tables.read(spark, lake, EVENTS).collect()}
    stored = {event[0]: event[7] for event in ledger.events()}
    assert found == {seq: session if seq > known else None for seq, session in stored.items()}
    assert any(stored[seq] for seq in stored if seq > known)


def test_a_table_that_is_made_otherwise_is_made_anew_once(
    ledger: Ledger, lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = versions(lake)
    assert not any(step.rows for step in bring(ledger, lake, spark).steps)
    monkeypatch.setitem(MESSAGES.__dict__, "making", MESSAGES.making + 1)
    report = bring(ledger, lake, spark)
    made = {step.name for step in report.steps if step.rows}
    assert made >= {"messages", "agent_daily", "topics_daily"}
    assert made & {spec.name for spec in SILVER} == {"messages"}
    assert not any(step.rows for step in bring(ledger, lake, spark).steps)

    # the version before, which does not know how they were made
    monkeypatch.undo()
    after = versions(lake)
    assert after["messages"] > before["messages"]
    ledger.tell(history(LATER))
    with pytest.raises(PipelineError, match=r"'messages' of the lake .* was made by a newer ManyDesks, its rows"):
        bring(ledger, lake, spark)
    assert versions(lake) == after


@pytest.mark.parametrize("spec", [EVENTS, BODIES, MESSAGES, COST_DAILY], ids=lambda spec: spec.name)
def test_a_newer_lake_is_left_alone(ledger: Ledger, lake: Path, spark: SparkSession, spec: TableSpec) -> None:
    column = deltalake.Field("colour", deltalake.schema.PrimitiveType("string"), nullable=True)
    deltalake.DeltaTable(str(lake / spec.folder)).alter.add_columns(column)
    before = versions(lake)
    ledger.tell(history(LATER))
    with pytest.raises(PipelineError, match=rf"'{spec.name}' of the lake .* newer ManyDesks, the column 'colour' is"):
        bring(ledger, lake, spark)
    with hold(lake) as held, pytest.raises(PipelineError, match="newer ManyDesks"):
        tables.sweep(held)
    assert versions(lake) == before
    # who only looks may
    assert tables.read(spark, lake, spec).columns[-1] == "colour"


def test_every_number_of_making_differs_when_something_it_is_made_of_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from manydesks.pipeline.schemas import making_of

    before = {name: making_of(spec) for name, spec in TABLES.items()}
    monkeypatch.setitem(TRACES.__dict__, "making", TRACES.making + 1)
    after = {name: making_of(spec) for name, spec in TABLES.items()}
    changed = {name for name in TABLES if after[name] > before[name]}
    assert changed == {spec.name for spec in (*SILVER, *GOLD)}
