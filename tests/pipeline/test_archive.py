"""The archive against a real store file, a real Spark and a real lake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import deltalake
import pyarrow as pa

from manydesks.domain.errors import LakeBusy, PipelineError
from manydesks.pipeline import tables
from manydesks.pipeline.commit import COMMITTED
from manydesks.pipeline.jobs import archive as job
from manydesks.pipeline.jobs.archive import ArchiveReport, archive
from manydesks.pipeline.lock import hold
from manydesks.pipeline.quality import reconcile
from manydesks.pipeline.schemas import BODIES, EVENTS, PIPELINE_RUNS, TableSpec
from manydesks.pipeline.sources.ledger import VIEWS, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(ledger: Any, lake: Path, spark: SparkSession) -> ArchiveReport:
    return archive(ledger.path, lake, spark, lambda *_: None)


def rows_of(lake: Path, spec: TableSpec) -> list[tuple[Any, ...]]:
    """Every row of the table, read by delta-rs alone."""
    table = deltalake.DeltaTable(str(lake / spec.folder))
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t order by 1, 2")
    columns = [column.to_pylist() for column in pa.table(found.read_all()).columns]
    return list(zip(*columns, strict=True))


def attempts_of(lake: Path, spec: TableSpec) -> set[str]:
    return {folder.name for folder in (lake / spec.folder / "data").iterdir()}


def test_the_lake_equals_the_ledger_and_delta_rs_alone_can_read_it(
    ledger: Any, lake: Path, spark: SparkSession
) -> None:
    ledger.add(1_000)
    told: list[tuple[str, int, int]] = []
    report = archive(ledger.path, lake, spark, lambda *step: told.append(step))
    assert (report.from_seq, report.to_seq, report.rows, report.bodies) == (0, 1_000, 1_000, 333)
    assert rows_of(lake, EVENTS) == ledger.events()
    assert rows_of(lake, BODIES) == ledger.bodies()
    assert told == [("bodies", 0, 333), ("bodies", 333, 333), ("events", 0, 1_000), ("events", 1_000, 1_000)]


def test_running_twice_changes_nothing(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(50)
    run(ledger, lake, spark)
    version, before = deltalake.DeltaTable(str(lake / EVENTS.folder)).version(), rows_of(lake, EVENTS)
    again = run(ledger, lake, spark)
    assert (again.from_seq, again.to_seq, again.rows, again.bodies) == (50, 50, 0, 0)
    assert deltalake.DeltaTable(str(lake / EVENTS.folder)).version() == version
    assert rows_of(lake, EVENTS) == before


def test_bytes_that_are_no_utf8_stop_no_later_run(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(3)
    ledger.execute("update events set data = cast(x'7bff7d' as text) where seq = 3")
    ledger.execute("update bodies set text = cast(x'61ff' as text)")
    run(ledger, lake, spark)
    ledger.add(1)
    assert run(ledger, lake, spark).rows == 1
    assert rows_of(lake, EVENTS)[2][-1] == "{\ufffd}"
    assert rows_of(lake, BODIES)[0][1] == "a\ufffd"
    store = read(spark, ledger.path, VIEWS["export_events"], 0, 4)
    assert reconcile(tables.read(spark, lake, EVENTS), store).agrees


def test_a_later_run_takes_only_what_is_new(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(40)
    run(ledger, lake, spark)
    ledger.add(25)
    report = run(ledger, lake, spark)
    assert (report.from_seq, report.to_seq, report.rows) == (40, 65, 25)
    assert rows_of(lake, EVENTS) == ledger.events()
    assert rows_of(lake, BODIES) == ledger.bodies()


def test_a_run_of_many_transactions_is_whole(
    ledger: Any, lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CHUNK", 300)
    ledger.add(1_000)
    assert run(ledger, lake, spark).rows == 1_000
    assert rows_of(lake, EVENTS) == ledger.events()
    assert len(attempts_of(lake, EVENTS)) == 4


def test_an_empty_ledger_makes_empty_tables(ledger: Any, lake: Path, spark: SparkSession) -> None:
    report = run(ledger, lake, spark)
    assert (report.from_seq, report.to_seq, report.rows, report.bodies) == (0, 0, 0, 0)
    assert rows_of(lake, EVENTS) == []
    ledger.add(3)
    assert run(ledger, lake, spark).rows == 3


def test_a_missing_store_is_one_sentence_and_leaves_no_lake(tmp_path: Path, lake: Path, spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"there is no store at .*office\.db"):
        archive(tmp_path / "office.db", lake, spark, lambda *_: None)
    assert not lake.exists()


def test_a_file_that_is_no_store_is_one_sentence(tmp_path: Path, lake: Path, spark: SparkSession) -> None:
    (tmp_path / "office.db").write_bytes(b"not a database, and long enough to be sure of it" * 50)
    with pytest.raises(PipelineError, match="cannot be read"):
        archive(tmp_path / "office.db", lake, spark, lambda *_: None)


def test_a_column_that_is_null_at_first_and_text_later(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(25_000, trace=None, agent=None, run=None)
    ledger.add(500, trace="tr_1", agent="coder", run="run_1")
    run(ledger, lake, spark)
    assert rows_of(lake, EVENTS) == ledger.events()


def test_a_gap_fails_before_the_commit(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(100)
    run(ledger, lake, spark)
    archived = rows_of(lake, EVENTS)
    ledger.add(100)
    ledger.execute("delete from events where seq between 150 and 152")
    with pytest.raises(PipelineError, match="events 150 to 152 are missing"):
        run(ledger, lake, spark)
    assert rows_of(lake, EVENTS) == archived
    assert tables.covered(lake, EVENTS, "events") == 100
    assert len(attempts_of(lake, EVENTS)) == 1
    runs = rows_of(lake, PIPELINE_RUNS)
    assert [(row[4], row[7]) for row in runs] == [(True, 100), (False, 100)]
    assert "150 to 152" in runs[1][5]


def test_a_gap_right_above_the_archived_range_is_one(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(20)
    ledger.execute("delete from events where seq <= 5")
    with pytest.raises(PipelineError, match="events 1 to 5 are missing"):
        run(ledger, lake, spark)


def test_a_pruned_prefix_is_no_gap(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(100)
    run(ledger, lake, spark)
    whole = ledger.events()
    ledger.execute("delete from events where seq <= 90")
    ledger.add(10)
    report = run(ledger, lake, spark)
    assert (report.from_seq, report.to_seq, report.rows) == (100, 110, 10)
    assert rows_of(lake, EVENTS) == whole + ledger.events()[-10:]


def test_a_wholly_pruned_ledger_is_no_gap(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(10)
    run(ledger, lake, spark)
    ledger.execute("delete from events")
    report = run(ledger, lake, spark)
    assert (report.to_seq, report.rows) == (10, 0)


def test_a_store_put_back_from_a_backup_is_refused(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(100)
    run(ledger, lake, spark)
    ledger.execute("delete from events where seq > 60")
    with pytest.raises(PipelineError, match="reaches event 100, but the ledger ends at 60"):
        run(ledger, lake, spark)
    ledger.add(60, agent="another history")
    with pytest.raises(PipelineError, match="event 100 is not the same"):
        run(ledger, lake, spark)


def test_an_erased_body_keeps_its_moment(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(6)
    ledger.execute("update bodies set text = '', erased_at = 1700000000123 where id = 2")
    run(ledger, lake, spark)
    assert rows_of(lake, BODIES)[1] == (2, "", 1700000000123)


def test_leftovers_of_a_killed_attempt_are_swept_and_a_committed_one_is_kept(
    ledger: Any, lake: Path, spark: SparkSession
) -> None:
    ledger.add(10)
    run(ledger, lake, spark)
    data = lake / EVENTS.folder / "data"
    (committed,) = data.iterdir()
    (committed / COMMITTED).unlink()  # as if killed between the commit and the mark
    stray = data / "0123456789abcdef"
    (stray / "_temporary" / "0").mkdir(parents=True)
    (stray / "part-00000.parquet").write_bytes(b"half a file")
    run(ledger, lake, spark)
    assert attempts_of(lake, EVENTS) == {committed.name}
    assert (committed / COMMITTED).exists()
    assert rows_of(lake, EVENTS) == ledger.events()


def test_the_mark_survives_a_checkpoint_of_the_log(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(10)
    run(ledger, lake, spark)
    deltalake.DeltaTable(str(lake / EVENTS.folder)).create_checkpoint()
    ledger.add(5)
    assert run(ledger, lake, spark).from_seq == 10


def test_of_two_runs_one_stops(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(5)
    script = (
        "import sys; from pathlib import Path; from manydesks.pipeline.lock import hold\n"
        "with hold(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, str(lake)], text=True, **pipes) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == "held\n"
        with pytest.raises(LakeBusy, match=f"process {other.pid}"):
            run(ledger, lake, spark)
        other.kill()
        other.wait()
    assert run(ledger, lake, spark).rows == 5


def test_the_lock_is_free_after_a_failed_run(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(5)
    ledger.execute("delete from events where seq = 3")
    with pytest.raises(PipelineError, match="event 3 is missing"):
        run(ledger, lake, spark)
    with hold(lake) as held:
        assert held.folder == lake


def test_odd_characters_in_the_path(ledger: Any, tmp_path: Path, spark: SparkSession) -> None:
    ledger.add(10)
    lake = tmp_path / "my [old] {lake} *#1? ü"
    run(ledger, lake, spark)
    assert tables.read(spark, lake, EVENTS).count() == 10


def test_a_path_that_delta_rs_would_misread_is_refused(ledger: Any, tmp_path: Path, spark: SparkSession) -> None:
    ledger.add(10)
    with pytest.raises(PipelineError, match="must not have a '%' in its path"):
        run(ledger, tmp_path / "my%20lake", spark)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_every_run_leaves_a_row(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(9)
    run(ledger, lake, spark)
    run(ledger, lake, spark)
    found = [dict(zip(PIPELINE_RUNS.schema.names, row, strict=True)) for row in rows_of(lake, PIPELINE_RUNS)]
    columns = ("job", "ok", "from_seq", "to_seq", "rows", "bodies")
    assert [tuple(one[name] for name in columns) for one in found] == [
        ("archive", True, 0, 9, 9, 3),
        ("archive", True, 9, 9, 0, 0),
    ]
    assert all(one["spark_version"] == spark.version and one["ended_at"] >= one["started_at"] for one in found)


def test_reconciliation_finds_what_differs(ledger: Any, lake: Path, spark: SparkSession) -> None:
    ledger.add(30)
    run(ledger, lake, spark)
    store = read(spark, ledger.path, VIEWS["export_events"], 0, 30)
    assert reconcile(tables.read(spark, lake, EVENTS), store).agrees
    ledger.execute("update events set agent = 'someone else' where seq = 7")
    found = reconcile(tables.read(spark, lake, EVENTS), store)
    assert (found.lake_rows, found.store_rows, found.only_lake, found.only_store, found.agrees) == (30, 30, 1, 1, False)
