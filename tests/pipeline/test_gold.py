"""Silver and gold grow run by run, and are what they would be if they were made at once."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from pyspark.sql import functions as F

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import (
    AGENT_DAILY,
    BUSY_HOURS,
    COST_DAILY,
    DEAD_LETTERS,
    GOLD,
    TERMS_DAILY,
    TOPICS_DAILY,
    TRACE_SUMMARY,
)
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.gold import ERASED, Gold
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.jobs.step import Progress
from manydesks.pipeline.lock import hold
from manydesks.pipeline.rebuilding import begin_rebuild, unbuilt
from manydesks.pipeline.silver import MESSAGES, SILVER, TRANSCRIPTS
from manydesks.testing.history import DAY_MS, Made, Shape, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Damage, Grown, Ledger, TableRows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

#: so far apart that one day is in the past of the next, and one is not; few, since each costs a file of every table
DAYS = (0, 20, 60)

EDITED, TOLD, ANSWER = "a pelican instead", "what is it? It is an owl.", "a heron"
ERASED_LATER = "zebra crossing zebra crossing"


def quiet(step: str, done: int, total: int) -> None: ...


class Killed(Exception): ...


def killed_in_the_middle(step: str, done: int, total: int) -> None:
    if step == "cost_daily":
        raise Killed


def bring(
    ledger: Ledger, lake: Path, spark: SparkSession, progress: Progress = quiet, *, rebuild: bool = False
) -> dict[str, int]:
    """Archive and refresh all layers; rows of gold written, by table."""
    archive(ledger.path, lake, spark, quiet)
    with hold(lake) as held:
        if rebuild:
            begin_rebuild(held, SystemClock())
        Silver(held, spark, quiet, SystemClock()).refresh()
        job = Gold(held, spark, progress, SystemClock())
        job.refresh()
    return {step.name: step.rows for step in job.steps}


def late(events: list[Made]) -> list[Made]:
    """Days later a dead message is edited, given new attempts and dies again, a question of long ago is answered, a
    message goes on with what it waited for, a tool ends that never began, and the clock was wrong by a month, two days
    long."""
    dead = next(event for event in events if event.kind == "message_dead")
    done = next(event for event in events if event.kind == "message_completed")
    stored = next(event for event in events if event.kind == "message_enqueued" and event.message != dead.message)
    at = events[-1].at + DAY_MS
    early = [
        replace(
            stored, at=events[0].at - days * DAY_MS, trace=f"trace_{days}", message=f"m_{days}", text="an early word"
        )
        for days in (31, 30)
    ]
    return [
        replace(dead, kind="message_requeued", at=at, run=None, text=EDITED, data={"actor": "owner", "edited": True}),
        # by a clock that was set back to a day before its first death
        replace(dead, at=dead.at - 3 * DAY_MS, data={**dead.data, "reason": "again"}),
        replace(done, kind="tool_done", at=at, run="run_unknown", data={"tool": "Bash", "call": "c9", "ok": True}),
        replace(done, kind="question_answered", at=at + 6, text=ANSWER, data={"question": "q1", "by": "kim"}),
        replace(stored, kind="message_held", at=at + 7, text=None, data={"reason": "join", "ref": "join_9"}),
        replace(stored, kind="message_released", at=at + 8, text=TOLD, data={"ref": "join_9"}),
        *early,
    ]


def days_apart(seed: int) -> list[Made]:
    begins = Shape(events=0).begins
    shapes = (Shape(events=150, agents=2, days=1, seed=seed + day, begins=begins + day * DAY_MS) for day in DAYS)
    events = [event for shape in shapes for event in history(shape)]
    # of the last day: those before it are left to what comes late
    last = begins + DAYS[-1] * DAY_MS
    number = next(at for at, event in enumerate(events) if event.kind == "message_enqueued" and event.at >= last)
    events[number] = replace(events[number], text=ERASED_LATER)
    return events


@pytest.mark.parametrize(
    ("seed", "parts"), [(4, 2), *(pytest.param(seed, 3, marks=pytest.mark.deep) for seed in (0, 1, 2))]
)
def test_a_table_that_grew_is_one_that_was_made_at_once(
    ledger: Ledger, spark: SparkSession, tmp_path: Path, table_rows: TableRows, damage: Damage, seed: int, parts: int
) -> None:
    """Silver and gold. `parts`: in which the usual events come, before those that come late."""
    events = days_apart(seed)
    usual = len(events)
    events += late(events)
    cuts = sorted(random.Random(seed).sample(range(1, usual), parts - 1))
    grown, at_once = tmp_path / "grown", tmp_path / "at-once"
    for begin, end in zip([0, *cuts, usual], [*cuts, usual, len(events)], strict=True):
        ledger.tell(events[begin:end])
        if end == len(events):
            erase(ledger, ERASED_LATER)
        if begin == cuts[0]:
            # half of the tables are ahead of the others now
            with pytest.raises(Killed):
                bring(ledger, grown, spark, killed_in_the_middle)
        else:
            bring(ledger, grown, spark)
    bring(ledger, at_once, spark)
    for spec in (*SILVER, *GOLD):
        made = table_rows(at_once, spec)
        assert table_rows(grown, spec) == made, spec.name
        assert made, spec.name
    agree(spark, at_once)
    damage(grown)
    with pytest.raises(Killed):
        bring(ledger, grown, spark, killed_in_the_middle, rebuild=True)
    left = unbuilt(grown)
    assert not left.silver
    assert {"cost_daily"} <= set(left.gold) < {spec.name for spec in GOLD}
    # what the rebuild has left, an ordinary run makes anew, and nothing else
    written = bring(ledger, grown, spark)
    assert not unbuilt(grown)
    assert {name for name, rows in written.items() if rows} == set(left.gold) - {"terms_daily"}
    for spec in (*SILVER, *GOLD):
        assert table_rows(grown, spec) == table_rows(at_once, spec), spec.name
    [again] = [row for row in tables.read(spark, at_once, DEAD_LETTERS).collect() if row["deaths"] == 2]
    assert (again["reason"], again["still_dead"]) == ("again", True)
    said = tables.read(spark, grown, TRANSCRIPTS).collect()
    changed = {row["operation"]: row["text"] for row in said if row["role"] == "user" and row["operation"]}
    assert changed == {"edited": EDITED, "told": TOLD, "answer": ANSWER}
    [edited] = [row["body"] for row in said if row["text"] == EDITED]
    dead = tables.read(spark, grown, MESSAGES).where(f"message_id = '{again['message_id']}'").first()
    assert dead is not None
    assert dead["body"] == edited
    assert [row["text"] for row in said if row["erased"]] == [None]


def test_only_days_that_something_happened_to_are_rewritten(grown: Grown, spark: SparkSession, tmp_path: Path) -> None:
    copy, begins = grown.copy(tmp_path), grown.shape.begins
    ledger, lake = copy.ledger, copy.lake
    before = {spec.name: set(tables.files(lake, spec)) for spec in (*SILVER, *GOLD)}
    assert set(bring(ledger, lake, spark).values()) == {0}
    ledger.tell([Made(at=begins, kind="agent_added", agent="x", data={})])  # no trace: nothing for silver
    bring(ledger, lake, spark)
    assert {spec.name: set(tables.files(lake, spec)) for spec in (*SILVER, *GOLD)} == before
    ledger.tell(history(Shape(events=40, agents=2, days=1, seed=9, begins=begins + 5 * DAY_MS)))
    bring(ledger, lake, spark)
    for spec in (*SILVER, *(spec for spec in GOLD if spec.by_day)):
        assert before[spec.name] <= set(tables.files(lake, spec)), spec.name
    for spec in (MESSAGES, AGENT_DAILY):
        assert len(tables.files(lake, spec)) > len(before[spec.name])


def test_what_was_erased_is_in_no_topic(grown: Grown, spark: SparkSession, tmp_path: Path) -> None:
    copy = grown.copy(tmp_path)
    ledger, lake = copy.ledger, copy.lake

    def said(spec: TableSpec) -> set[str]:
        found = tables.read(spark, lake, spec).where(F.col("term").contains("zebra")).collect()
        return {row["term"] for row in found}

    assert {"zebra", "zebra crossing"} <= said(TOPICS_DAILY) <= said(TERMS_DAILY)
    known = tables.covered(lake, TOPICS_DAILY, ERASED)
    erase(ledger, "zebra%")
    assert bring(ledger, lake, spark)["topics_daily"] > 0
    assert said(TERMS_DAILY) == said(TOPICS_DAILY) == set()
    assert tables.covered(lake, TOPICS_DAILY, ERASED) == known + 1
    assert set(bring(ledger, lake, spark).values()) == {0}


def erase(ledger: Ledger, like: str) -> None:
    """As the store does it: the text is emptied, and an event names it."""
    ledger.execute(
        "insert into events select (select max(seq) + 1 from events), 1, 'body_erased', trace, null, message, null,"
        " null, null, body, '{}' from events where body = (select id from bodies where text like ?)",
        like,
    )
    ledger.execute("update bodies set text = '', erased_at = 1 where text like ?", like)


def agree(spark: SparkSession, lake: Path) -> None:
    """Costs are the same whatever way they are cut, and so are messages."""
    sums = []
    for spec in (AGENT_DAILY, COST_DAILY, TRACE_SUMMARY):
        found = tables.read(spark, lake, spec).agg(F.sum("cost_usd"), F.sum("unknown_cost_runs")).first()
        assert found is not None
        sums.append((round(found[0], 6), found[1]))
    assert sums[0] == sums[1] == sums[2]
    assert all(sums[0])
    counts = [tables.read(spark, lake, spec).agg(F.sum("messages")).first() for spec in (AGENT_DAILY, BUSY_HOURS)]
    assert counts[0] == counts[1]
