"""Small files become few, and old ones go: the rows stay the same, and so does what a reader holds."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import LakeBusy, PipelineError
from manydesks.pipeline import merging, tables
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.commit import COMMITTED, Change, commit_files
from manydesks.pipeline.jobs import compact as compacting
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.compact import HOUR_MS, Compacted, compact, tidy
from manydesks.pipeline.jobs.erase import erase
from manydesks.pipeline.lock import hold
from manydesks.pipeline.silver import HANDOFFS
from manydesks.pipeline.tables import File, Mark, Range
from manydesks.pipeline.vacuum import trim_log
from manydesks.testing.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


def event(seq: int) -> dict[str, Any]:
    return {"seq": seq, "at": seq, "kind": "k", "data": f"{{{seq}}}"}


def put(
    lake: Path, spec: TableSpec, parts: Sequence[Rows], mark: int | None = None, columns: int | None = None
) -> None:
    """One commit with a file for each part; `columns`: only the first ones, as an older version wrote them."""
    schema = to_arrow_schema(spec.schema)
    kept = pa.schema(list(schema)[:columns])

    def write(attempt: Path) -> None:
        for number, rows in enumerate(parts):
            whole = [{name: row.get(name) for name in kept.names} for row in rows]
            pq.write_table(pa.Table.from_pylist(whole, schema=kept), attempt / f"{number:04d}.parquet")

    with hold(lake) as held:
        tables.ensure(held, spec)
        properties = None if mark is None else Mark(app=spec.name, version=mark).properties
        older = replace(spec, columns=spec.columns[:columns])
        commit_files(lake / spec.folder, older, write, SystemClock(), Change(properties=properties))


def rows_of(paths: Sequence[Path]) -> Rows:
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def done(lake: Path, keep_hours: float | None = None) -> dict[str, Compacted]:
    return {one.name: one for one in compact(lake, lambda *_: None, SystemClock(), keep_hours=keep_hours)}


def file(size: int, least: int, day: str | None = None) -> File:
    entry = {
        "path": f"{least}",
        "size_bytes": size,
        "num_records": 1,
        "min.seq": least,
        "min.day": day,
        "min.hop": least,
    }
    return File(path=Path(f"/{least}"), entry=entry)


def test_which_files_go_together() -> None:
    found = [file(10, 3), file(10, 1), file(60, 2), file(40, 5), file(40, 4), file(40, 6), file(49, 7)]
    random.Random(1).shuffle(found)
    # neighbours only, up to the size that is wanted; one that is large enough stands between
    assert [[one.entry["min.seq"] for one in bin] for bin in merging.bins(EVENTS, found, 100)] == [[3, 4, 5], [6, 7]]
    by_day = [file(10, 1, "2026-01-01"), file(10, 2, "2026-01-02"), file(10, 3, "2026-01-01")]
    assert [[one.path.name for one in bin] for bin in merging.bins(HANDOFFS, by_day, 100)] == [["1", "3"]]


def test_a_table_that_grows_by_small_files_has_few_and_is_rarely_written_anew() -> None:
    sizes: list[int] = []
    written = most = 0
    for _ in range(3000):
        sizes.append(1)
        for bin in merging.newest(EVENTS, [file(size, at) for at, size in enumerate(sizes)], 32, 10_000):
            joined = sum(map(merging.size, bin))
            written += joined
            sizes[-len(bin) :] = [joined]
        most = max(most, len(sizes))
    assert sum(sizes) == 3000
    assert most <= 33
    assert written < 3000 * 8


def test_compact_keeps_the_rows_the_marks_and_what_readers_hold(lake: Path) -> None:
    put(lake, EVENTS, [[event(seq) for seq in range(at, at + 10)] for at in range(1, 201, 10)], mark=200, columns=9)
    put(lake, EVENTS, [[event(201)], [event(202)]], mark=202)
    put(lake, HANDOFFS, [[{"day": f"2026-01-0{day}", "message_id": f"m{day}"}] for day in (1, 2, 1)], mark=202)
    held_by_a_reader = tables.files(lake, EVENTS)
    before = rows_of(held_by_a_reader)
    version = tables.version(lake, EVENTS)

    found = done(lake)

    assert (found["events"].files_before, found["events"].files_after, found["events"].freed.files) == (22, 1, 0)
    assert (found["handoffs"].files_before, found["handoffs"].files_after) == (3, 2)
    assert tables.covered(lake, EVENTS, "events") == 202
    (merged,) = tables.snapshot(lake, EVENTS)
    after = pq.ParquetFile(merged.path).read().to_pylist()
    # in the order of the keys; what the older version did not write is NULL
    assert after == [{**dict.fromkeys(after[0]), **row} for row in sorted(before, key=lambda row: row["seq"])]
    assert (after[0]["data"], after[-1]["data"]) == (None, "{202}")
    assert (merged.entry["min.seq"], merged.entry["max.seq"], merged.rows) == (1, 202, 202)
    assert not merged.may_hold(Range(column="seq", least=203, most=999))
    # a reader that has the old list, and one that asks for the old version
    assert rows_of(held_by_a_reader) == before
    old = deltalake.DeltaTable((lake / EVENTS.folder).as_uri(), version=version)
    assert len(old.file_uris()) == 22
    # nothing to do is done quickly: no new version
    version = tables.version(lake, EVENTS)
    assert done(lake)["events"].files_after == 1
    assert tables.version(lake, EVENTS) == version


def test_vacuum_removes_what_is_out_of_use_for_long_enough(lake: Path) -> None:
    put(lake, EVENTS, [[event(seq)] for seq in range(1, 6)], mark=5)
    old = tables.files(lake, EVENTS)
    assert done(lake, keep_hours=1)["events"].freed.files == 0
    assert all(path.exists() for path in old)

    found = done(lake, keep_hours=0)

    assert found["events"].freed.files == 5
    assert found["events"].freed.bytes > 0
    assert not any(path.exists() for path in old)
    assert [row["seq"] for row in rows_of(tables.files(lake, EVENTS))] == [1, 2, 3, 4, 5]
    assert tables.covered(lake, EVENTS, "events") == 5
    attempts = list((lake / EVENTS.folder / "data").iterdir())
    assert [(attempt / COMMITTED).exists() for attempt in attempts] == [True]
    # the table goes on, and its log begins at the checkpoint
    put(lake, EVENTS, [[event(6)]], mark=6)
    assert (tables.count(lake, EVENTS), tables.covered(lake, EVENTS, "events")) == (6, 6)
    entries = sorted(path.name for path in (lake / EVENTS.folder / "_delta_log").glob("0*"))
    assert entries[0].endswith(".checkpoint.parquet")


def test_a_log_is_not_cut_where_a_snapshot_needs_it(lake: Path) -> None:
    put(lake, EVENTS, [[event(1)]], mark=1)
    done(lake)
    put(lake, EVENTS, [[event(2)]], mark=2)
    log = lake / EVENTS.folder / "_delta_log"
    before = sorted(path.name for path in log.iterdir())
    assert trim_log(lake / EVENTS.folder, 0) == 0
    assert sorted(path.name for path in log.iterdir()) == before
    assert trim_log(lake / EVENTS.folder, SystemClock().now() + HOUR_MS) == 1
    assert tables.count(lake, EVENTS) == 2


def test_files_that_are_not_as_the_log_says_are_left_alone(lake: Path) -> None:
    put(lake, EVENTS, [[event(1)], [event(2)]], mark=2)
    path = tables.files(lake, EVENTS)[0]
    pq.write_table(pa.Table.from_pylist([], schema=to_arrow_schema(EVENTS.schema)), path)
    with pytest.raises(PipelineError, match="hold 1 rows, and its log says 2"):
        done(lake)
    assert len(tables.files(lake, EVENTS)) == 2


def test_columns_of_a_newer_version_are_not_dropped(lake: Path) -> None:
    put(lake, EVENTS, [[event(1)], [event(2)]], mark=2)
    path = tables.files(lake, EVENTS)[0]
    pq.write_table(pq.ParquetFile(path).read().append_column("mood", pa.array(["good"])), path)
    with pytest.raises(PipelineError, match="newer ManyDesks \\(it has the column 'mood'\\)"):
        done(lake)


def test_a_run_tidies_up_after_many_others(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "FEW_FILES", 3)
    monkeypatch.setattr(compacting, "FEW_COMMITS", 1)
    for at in range(1, 6):
        put(lake, PIPELINE_RUNS, [[{"job": "run", "started_at": at, "ended_at": at, "seconds": 1.0, "ok": True}]])
    before = sorted(rows_of(tables.files(lake, PIPELINE_RUNS)), key=lambda row: row["started_at"])
    with hold(lake) as held:
        tidy(held, SystemClock())
        assert len(tables.files(lake, PIPELINE_RUNS)) == 1
        assert rows_of(tables.files(lake, PIPELINE_RUNS)) == before
        data = lake / PIPELINE_RUNS.folder / "data"
        assert len(list(data.rglob("*.parquet"))) == 6  # those of the last hour stay
        later = ManualClock(now=SystemClock().now() + 2 * HOUR_MS)
        tidy(held, later)
        assert len(list(data.rglob("*.parquet"))) == 1
    assert rows_of(tables.files(lake, PIPELINE_RUNS)) == before


def test_a_busy_lake_is_left_alone(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "PATIENCE_SECONDS", 0.0)
    with hold(lake), pytest.raises(LakeBusy):
        done(lake)


@pytest.mark.spark
@pytest.mark.slow
def test_what_was_forgotten_is_in_no_file_after_a_vacuum(ledger: Any, lake: Path, spark: SparkSession) -> None:
    def bring() -> None:
        archive(ledger.path, lake, spark, lambda *_: None)
        with hold(lake) as held:
            erase(held, spark, SystemClock())

    ledger.add(30)
    ledger.execute("update bodies set text = 'the zebra code' where id = 3")
    bring()
    assert whole_lake(lake).count("the zebra code") == 1
    ledger.execute("update bodies set text = '', erased_at = 5 where id = 3")
    ledger.add(1, kind="body_erased")
    ledger.execute("update events set body = 3 where kind = 'body_erased'")
    bring()
    assert "zebra" not in json.dumps(rows_of(tables.files(lake, BODIES)))
    assert "zebra" in whole_lake(lake)  # in the versions from before

    compact(lake, lambda *_: None, keep_hours=0)

    assert "zebra" not in whole_lake(lake)
    assert tables.count(lake, BODIES) == 10


def whole_lake(lake: Path) -> str:
    """Every file, Parquet unpacked."""
    texts = []
    for path in sorted(path for path in lake.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            texts.append(json.dumps(pq.ParquetFile(path).read().to_pylist(), default=str))
        else:
            texts.append(path.read_bytes().decode("latin-1"))
    return "\n".join(texts)
