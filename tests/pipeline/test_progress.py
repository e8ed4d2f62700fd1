"""What a run tells of itself: rows for every step, of bronze, of silver and of gold."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.clock import SystemClock
from manydesks.domain.insight import FILE
from manydesks.pipeline import tables
from manydesks.pipeline.gold import TOPICS_DAILY
from manydesks.pipeline.jobs.gold import Gold
from manydesks.pipeline.jobs.step import Rows
from manydesks.pipeline.jobs.underway import Underway
from manydesks.pipeline.lock import hold
from manydesks.pipeline.rebuilding import begin_rebuild
from manydesks.pipeline.silver import TRANSCRIPTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Grown

pytestmark = pytest.mark.spark


def test_every_step_tells_its_rows_while_it_works_and_at_its_end(grown: Grown) -> None:
    steps = {step.name: step for step in grown.ended}
    assert {"events", "bodies", "session_files", "messages", "spans", "agent_daily", "topics_daily", FILE} <= set(steps)
    assert len(steps) == len(grown.ended)
    for name in ("events", "messages", "spans", "transcripts"):
        assert steps[name].taken == grown.first, name
    for name, step in steps.items():
        if step.taken and not name.startswith("session_"):
            assert (name, 0, step.taken) in grown.told, name
            assert grown.told.index((name, 0, step.taken)) < grown.told.index((name, step.taken, step.taken)), name
    assert all(steps[name].rows for name in ("messages", "spans", "agent_daily", "topics_daily", FILE))


def test_rows_are_seen_while_a_table_is_made_and_told_apart_from_those_of_another(
    grown: Grown, tmp_path: Path, spark: SparkSession
) -> None:
    underway = Underway(spark)
    texts = tables.count(grown.lake, TRANSCRIPTS)
    in_the_middle: list[Rows] = []

    def tell(step: str, done: int, total: int) -> None:
        underway.tell(step, done, total)
        if (step, done, total) == (TOPICS_DAILY.name, 0, texts):  # it has looked at all texts, and written nothing yet
            in_the_middle.append(seen(underway, step, texts))

    with hold(grown.copy(tmp_path).lake) as held:
        begin_rebuild(held, SystemClock())
        gold = Gold(held, spark, tell, SystemClock())
        gold.refresh()
    said = tables.read(spark, grown.lake, TRANSCRIPTS)
    said.collect()  # after the end of all steps: nobody's
    underway.tell("last", 0, texts)
    said.collect()
    underway.tell("last", texts, texts)
    seen(underway, "last", texts)  # and so everything before it
    found = underway.rows()
    assert [rows.read for rows in in_the_middle] == [texts]
    assert set(found) == {"last", *(step.name for step in gold.steps)}
    taken = {step.name: step.taken for step in gold.steps}
    # read once, each beside another table
    assert {name: found[name].read for name in ("cost_daily", "busy_hours")} == {
        name: taken[name] for name in ("cost_daily", "busy_hours")
    }
    assert found["topics_daily"].read >= 2 * texts
    assert found["trace_summary"].passed >= found["trace_summary"].read >= taken["trace_summary"]


def seen(underway: Underway, step: str, rows: int) -> Rows:
    """Once so many were read: Spark counts a moment later than it reads."""
    until = time.monotonic() + 30
    while (found := underway.rows().get(step, Rows(0, 0))).read < rows:
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found
