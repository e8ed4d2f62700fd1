"""A lake that was lost, and is begun anew with what the store still has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.errors import LakeRefused
from manydesks.domain.insight import FILE
from manydesks.insights.published import Insights
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import EVENTS
from manydesks.pipeline.gold import AGENT_DAILY
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.report.facts import gather
from manydesks.pipeline.report.page import page
from manydesks.pipeline.silver import MESSAGES
from manydesks.pipeline.standing import standing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Grown, Ledger, TableRows

pytestmark = pytest.mark.spark


def test_a_lost_lake_is_begun_with_what_the_store_still_has(
    ledger: Ledger, lake: Path, spark: SparkSession, grown: Grown, table_rows: TableRows
) -> None:
    """In the middle of traces: of some the store has the end only."""
    events = grown.events()
    ledger.tell(events)
    ledger.execute("delete from events where seq <= 60")
    with pytest.raises(LakeRefused, match="events 1 to 60 are missing"):
        run(ledger.path, lake, spark, lambda *_: None)
    assert not lake.exists()

    report = run(ledger.path, lake, spark, lambda *_: None, incomplete=True)
    assert (report.begins, report.from_seq, report.to_seq, report.rows) == (61, 60, len(events), len(events) - 60)
    assert {step.taken for step in report.steps if step.name in ("events", "messages", "spans")} == {len(events) - 60}
    assert [row[0] for row in ledger.events()] == sorted(row[0] for row in table_rows(lake, EVENTS))
    found = standing(lake, ledger.path)
    assert (found.begins, found.level, found.behind, found.refusal) == (61, True, 0, None)
    # what was said about the rest is as it is in a lake that has everything
    whole = {row[0]: row for row in table_rows(grown.lake, MESSAGES)}
    late = [row for row in table_rows(lake, MESSAGES) if row == whole[row[0]]]
    assert len(late) > len(whole) // 3
    assert tables.count(lake, AGENT_DAILY)
    # and who sees the figures is told
    assert Insights(lake / FILE).stamp().begins == 61
    assert "What was before event 61 is not in the lake." in page(gather(lake, 92), "")
    assert "What was before" not in page(gather(grown.lake, 92), "")

    # and it goes on as any other
    ledger.tell(events[-1:])
    again = run(ledger.path, lake, spark, lambda *_: None)
    assert (again.begins, again.from_seq, again.rows) == (61, len(events), 1)
