"""Silver grows run by run, and is what it would be if it were made at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import deltalake

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.bronze import BODIES
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.erase import erase
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.lock import hold
from manydesks.pipeline.rebuilding import begin_rebuild
from manydesks.pipeline.silver import MESSAGES, QUARANTINED_SPANS, SILVER, SPANS, TRACES, TRANSCRIPTS
from manydesks.testing.history import DAY_MS, Made, Shape, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.columns import TableSpec
    from tests.pipeline.conftest import Grown, Ledger, TableRows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def quiet(step: str, done: int, total: int) -> None: ...


def bring(ledger: Ledger, lake: Path, spark: SparkSession, *, rebuild: bool = False) -> dict[str, int]:
    """Archive and refresh; rows written, by table."""
    archive(ledger.path, lake, spark, quiet)
    with hold(lake) as held:
        if rebuild:
            begin_rebuild(held, SystemClock())
        job = Silver(held, spark, quiet, SystemClock())
        job.refresh()
    return {step.name: step.rows for step in job.steps}


def late(events: list[Made]) -> list[Made]:
    """What a person does days later to a message of the first day that died, and to one that was answered."""
    dead = next(event for event in events if event.kind == "message_dead")
    done = next(event for event in events if event.kind == "message_completed")
    at = events[-1].at + 1
    again = replace(dead, kind="message_requeued", at=at, run=None, data={"actor": "owner", "edited": False})
    skewed = replace(done, kind="tool_done", at=at, run="run_unknown", data={"tool": "Bash", "call": "c9", "ok": True})
    return [again, skewed]


@pytest.mark.deep  # and every time, of other histories and with gold: `test_gold.py`
@pytest.mark.parametrize("seed", [3, 5])
def test_a_table_that_grew_is_one_that_was_made_at_once(
    ledger: Ledger, spark: SparkSession, tmp_path: Path, table_rows: TableRows, seed: int
) -> None:
    events = list(history(Shape(events=900, agents=4, days=4, seed=seed)))
    events += late(events)
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(events)), 3))
    grown, at_once = tmp_path / "grown", tmp_path / "at-once"
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        ledger.tell(events[begin:end])
        bring(ledger, grown, spark)
    bring(ledger, at_once, spark)
    for spec in SILVER:
        made = table_rows(at_once, spec)
        assert table_rows(grown, spec) == made, spec.name
        assert made, spec.name
    bring(ledger, grown, spark, rebuild=True)
    for spec in SILVER:
        assert table_rows(grown, spec) == table_rows(at_once, spec), spec.name


def test_a_second_run_writes_nothing(grown: Grown, spark: SparkSession, tmp_path: Path) -> None:
    copy = grown.copy(tmp_path)
    before = {spec.name: tables.files(copy.lake, spec) for spec in SILVER}
    assert set(bring(copy.ledger, copy.lake, spark).values()) == {0}
    assert {spec.name: tables.files(copy.lake, spec) for spec in SILVER} == before


def test_rows_of_a_trace_lie_in_its_first_day(grown: Grown, table_rows: TableRows) -> None:
    lasted = {trace: set[int]() for _, trace, *_ in table_rows(grown.lake, TRACES)}
    for event in grown.events():
        if event.trace is not None:
            lasted[event.trace].add(event.at // DAY_MS)
    assert any(len(days) > 1 for days in lasted.values())
    first = {
        trace: f"{datetime.fromtimestamp(min(days) * DAY_MS / 1000, UTC):%Y-%m-%d}" for trace, days in lasted.items()
    }
    for spec in SILVER:
        at = [column.name for column in spec.columns].index("trace")
        assert all(row[0] == first[row[at]] for row in table_rows(grown.lake, spec)), spec.name
    # a file never holds two days
    for spec in SILVER:
        files = tables.snapshot(grown.lake, spec)
        assert all(file.entry["min.day"] == file.entry["max.day"] for file in files), spec.name


def test_an_erased_text_is_in_no_transcript(grown: Grown, spark: SparkSession) -> None:
    said = tables.read(spark, grown.lake, TRANSCRIPTS).collect()
    [gone] = [row for row in said if row["body"] == grown.erased]
    assert (gone["text"], gone["erased"]) == (None, True)
    assert all(row["text"] for row in said if row is not gone)


def _ending_after(spec: TableSpec) -> Callable[..., int]:
    replace_days = tables.replace_days

    def ending(held: Any, written: TableSpec, *args: Any, **kwargs: Any) -> int:
        rows = replace_days(held, written, *args, **kwargs)
        if written is spec:
            raise KeyboardInterrupt
        return rows

    return ending


def test_what_cannot_be_is_set_apart_and_mended_by_what_comes_late(
    ledger: Ledger, spark: SparkSession, lake: Path, table_rows: TableRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    about: dict[str, Any] = {"trace": "t1", "message": "m1", "run": "r1", "agent": "a", "session": "s"}
    call = {"tool": "Bash", "call": "c1"}
    ledger.tell([Made(at=2_000, kind="tool_done", **about, data={**call, "ok": True})])
    assert bring(ledger, lake, spark)[QUARANTINED_SPANS.name] == 1
    [orphan] = table_rows(lake, QUARANTINED_SPANS)
    assert orphan[-1] == "it has no beginning"
    assert table_rows(lake, SPANS) == []
    ledger.tell([Made(at=1_000, kind="tool_called", **about, data=call)])
    bring(ledger, lake, spark)
    [orphan] = table_rows(lake, QUARANTINED_SPANS)
    assert orphan[-1] == "the run that led to it is not in its trace"
    ledger.tell([Made(at=500, kind="message_received", **about, data={"attempt": 1, "queue_ms": 0})])
    # a run that ends when it has left the one table, and has not come to the other
    with monkeypatch.context() as patched:
        patched.setattr(tables, "replace_days", _ending_after(QUARANTINED_SPANS))
        with pytest.raises(KeyboardInterrupt):
            bring(ledger, lake, spark)
    assert table_rows(lake, QUARANTINED_SPANS) == table_rows(lake, SPANS) == []
    assert QUARANTINED_SPANS.name not in bring(ledger, lake, spark)
    assert table_rows(lake, QUARANTINED_SPANS) == []
    found = tables.read(spark, lake, SPANS).collect()
    assert {(span["span_id"], span["duration_ms"], span["parent_id"]) for span in found} == {
        ("queue:m1:r1", 0, None),
        ("run:r1", None, "queue:m1:r1"),
        ("tool:r1:c1", 1_000, "run:r1"),
    }


def test_an_empty_older_table_gets_the_columns_it_lacks(lake: Path) -> None:
    older = replace(MESSAGES, columns=tuple(c for c in MESSAGES.columns if c.name != "team"))
    with hold(lake) as held:
        for spec in (older, MESSAGES):
            tables.ensure(held, spec)
            found = deltalake.DeltaTable(str(lake / MESSAGES.folder)).schema()
            assert {field.name for field in found.fields} == {column.name for column in spec.columns}


def test_what_is_erased_later_goes_from_bodies_and_transcripts(
    grown: Grown, spark: SparkSession, tmp_path: Path, table_rows: TableRows
) -> None:
    copy = grown.copy(tmp_path)
    ledger, lake = copy.ledger, copy.lake
    [secret] = lookup.find(lake, BODIES, "id", 3)
    ledger.execute("update bodies set text = '', erased_at = 5 where id = 3")
    at = grown.shape.begins + 9 * DAY_MS
    ledger.tell([Made(at=at, kind="body_erased", data={})])
    ledger.execute("update events set body = 3 where kind = 'body_erased'")
    bring(ledger, lake, spark)
    with hold(lake) as held:  # as a run does at its end
        erase(held, spark, SystemClock())
    assert lookup.find(lake, BODIES, "id", 3) == [{"id": 3, "text": "", "erased_at": at}]
    assert lookup.find(lake, BODIES, "id", 4)[0]["text"]
    said = tables.read(spark, lake, TRANSCRIPTS)
    assert [(row["text"], row["erased"]) for row in said.where("body = 3").collect()] == [(None, True)]
    assert secret["text"] not in {row["text"] for row in said.collect()}
    before = {spec.name: table_rows(lake, spec) for spec in SILVER}
    bring(ledger, lake, spark, rebuild=True)
    assert {spec.name: table_rows(lake, spec) for spec in SILVER} == before
