"""Gold grows run by run, and is what it would be if it were made at once."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from pyspark.sql import functions as F

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import (
    AGENT_DAILY,
    BUSY_HOURS,
    COST_DAILY,
    DEAD_LETTERS,
    GOLD,
    TERMS_DAILY,
    TOPICS_DAILY,
)
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.gold import ERASED, Gold
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.lock import hold
from manydesks.pipeline.silver import TRANSCRIPTS
from manydesks.testing.history import DAY_MS, Made, Shape, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Ledger

#: so far apart that one day is in the past of the next, and one is not; few, since each costs a file of every table
DAYS = (0, 20, 60)


def quiet(step: str, done: int, total: int) -> None: ...


def bring(ledger: Ledger, lake: Path, spark: SparkSession, *, rebuild: bool = False) -> dict[str, int]:
    """Archive and refresh all layers; rows of gold written, by table."""
    archive(ledger.path, lake, spark, quiet)
    with hold(lake) as held:
        Silver(held, spark, quiet, SystemClock(), rebuild=rebuild).refresh()
        job = Gold(held, spark, quiet, SystemClock(), rebuild=rebuild)
        job.refresh()
    return {step.name: step.rows for step in job.steps}


def rows(spark: SparkSession, lake: Path, spec: TableSpec) -> list[tuple[Any, ...]]:
    found = tables.read(spark, lake, spec).select(*(column.name for column in spec.columns))
    return sorted((tuple(row) for row in found.collect()), key=repr)


def late(events: list[Made]) -> list[Made]:
    """Days later a dead message is given new attempts and dies again; and the clock was wrong by a month."""
    dead = next(event for event in events if event.kind == "message_dead")
    stored = next(event for event in events if event.kind == "message_enqueued" and event.agent == dead.agent)
    at = events[-1].at + DAY_MS
    early = replace(stored, at=events[0].at - 31 * DAY_MS, trace="trace_early", message="m_early", text="an early word")
    return [
        replace(dead, kind="message_requeued", at=at, run=None, data={"actor": "owner", "edited": False}),
        replace(dead, at=at + 5, data={**dead.data, "reason": "again"}),
        early,
    ]


def days_apart(seed: int) -> list[Made]:
    begins = Shape(events=0).begins
    shapes = (Shape(events=150, agents=2, days=1, seed=seed + day, begins=begins + day * DAY_MS) for day in DAYS)
    return [event for shape in shapes for event in history(shape)]


@pytest.mark.parametrize("seed", [0, 4])
def test_a_table_that_grew_is_one_that_was_made_at_once(
    ledger: Ledger, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    events = days_apart(seed)
    events += late(events)
    cuts = sorted(random.Random(seed).sample(range(1, len(events) - 3), 2))
    grown, at_once = tmp_path / "grown", tmp_path / "at-once"
    for begin, end in zip([0, *cuts, len(events) - 3], [*cuts, len(events) - 3, len(events)], strict=True):
        ledger.tell(events[begin:end])
        bring(ledger, grown, spark)
    bring(ledger, at_once, spark)
    for spec in GOLD:
        made = rows(spark, at_once, spec)
        assert rows(spark, grown, spec) == made, spec.name
        assert made, spec.name
    bring(ledger, grown, spark, rebuild=True)
    for spec in GOLD:
        assert rows(spark, grown, spec) == rows(spark, at_once, spec), spec.name
    [again] = [row for row in tables.read(spark, at_once, DEAD_LETTERS).collect() if row["deaths"] == 2]
    assert (again["reason"], again["still_dead"]) == ("again", True)


def test_a_second_run_writes_nothing(ledger: Ledger, spark: SparkSession, lake: Path) -> None:
    ledger.tell(history(Shape(events=200, agents=3, days=2)))
    assert bring(ledger, lake, spark)["agent_daily"] > 0
    before = {spec.name: tables.files(lake, spec) for spec in GOLD}
    assert set(bring(ledger, lake, spark).values()) == {0}
    assert {spec.name: tables.files(lake, spec) for spec in GOLD} == before


def test_days_that_nothing_happened_to_are_not_rewritten(ledger: Ledger, spark: SparkSession, lake: Path) -> None:
    shape = Shape(events=400, agents=3, days=3)
    ledger.tell(history(shape))
    bring(ledger, lake, spark)
    by_day = [spec for spec in GOLD if spec.by_day]
    before = {spec.name: set(tables.files(lake, spec)) for spec in by_day}
    ledger.tell([Made(at=shape.begins, kind="agent_added", agent="x", data={})])  # no trace: nothing for silver
    bring(ledger, lake, spark)
    assert {spec.name: set(tables.files(lake, spec)) for spec in by_day} == before
    ledger.tell(history(Shape(events=60, agents=3, days=1, seed=9, begins=shape.begins + 5 * DAY_MS)))
    bring(ledger, lake, spark)
    for spec in by_day:
        assert before[spec.name] <= set(tables.files(lake, spec)), spec.name
    assert len(tables.files(lake, AGENT_DAILY)) > len(before["agent_daily"])


def test_what_was_erased_is_in_no_topic(ledger: Ledger, spark: SparkSession, lake: Path) -> None:
    events = list(history(Shape(events=150, agents=2, days=2)))
    first = next(number for number, event in enumerate(events) if event.kind == "message_enqueued")
    events[first] = replace(events[first], text="zebra crossing zebra crossing")
    ledger.tell(events)
    bring(ledger, lake, spark)

    def said(spec: TableSpec) -> set[str]:
        found = tables.read(spark, lake, spec).where(F.col("term").contains("zebra")).collect()
        return {row["term"] for row in found}

    assert said(TERMS_DAILY) == said(TOPICS_DAILY) == {"zebra", "zebra crossing", "crossing zebra"}
    erase(spark, lake, "zebra")
    assert bring(ledger, lake, spark)["topics_daily"] > 0
    assert said(TERMS_DAILY) == said(TOPICS_DAILY) == set()
    assert tables.covered(lake, TOPICS_DAILY, ERASED) == 1
    assert set(bring(ledger, lake, spark).values()) == {0}


def erase(spark: SparkSession, lake: Path, word: str) -> None:
    """As the archive does it: the texts of silver are gone, and no event says so."""
    old = tables.snapshot(lake, TRANSCRIPTS)
    texts = tables.read(spark, lake, TRANSCRIPTS)
    has = F.col("text").contains(word)
    gone = texts.withColumn("erased", F.coalesce(has, F.lit(False)) | F.col("erased"))
    gone = gone.withColumn("text", F.when(~has, F.col("text")))
    parts = [row["day"] for row in texts.select("day").distinct().collect()]
    with hold(lake) as held:
        for day in parts:
            files = [file for file in old if file.entry["min.day"] == day]
            ready = gone.where(F.col("day") == day).select(*(c.name for c in TRANSCRIPTS.columns)).coalesce(1)
            tables.rewrite(held, TRANSCRIPTS, files, ready, SystemClock(), changes_data=True)


def test_costs_agree(ledger: Ledger, spark: SparkSession, lake: Path) -> None:
    """Whatever way they are cut: by agent, by model, by trace."""
    ledger.tell(history(Shape(events=400, agents=4, days=3, seed=11)))
    bring(ledger, lake, spark)
    sums = []
    for name in ("agent_daily", "cost_daily", "trace_summary"):
        spec = next(spec for spec in GOLD if spec.name == name)
        found = tables.read(spark, lake, spec).agg(F.sum("cost_usd"), F.sum("unknown_cost_runs")).first()
        assert found is not None
        sums.append((round(found[0], 6), found[1]))
    assert sums[0] == sums[1] == sums[2]
    assert sums[0][1] > 0
    models = {row["model"] for row in tables.read(spark, lake, COST_DAILY).collect()}
    assert None in models
    hours = tables.read(spark, lake, BUSY_HOURS).agg(F.sum("messages")).first()
    days = tables.read(spark, lake, AGENT_DAILY).agg(F.sum("messages")).first()
    assert hours == days
    assert tables.exists(lake, BODIES)
