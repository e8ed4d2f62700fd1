"""What a run tells of itself: rows for every step, of bronze, of silver and of gold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

if TYPE_CHECKING:
    from tests.pipeline.conftest import Grown

pytestmark = pytest.mark.spark


def test_every_step_tells_its_rows_while_it_works_and_at_its_end(grown: Grown) -> None:
    steps = {step.name: step for step in grown.ended}
    assert {"events", "bodies", "session_files", "messages", "spans", "agent_daily", "topics_daily"} <= set(steps)
    assert len(steps) == len(grown.ended)
    for name in ("events", "messages", "spans", "transcripts"):
        assert steps[name].taken == grown.first, name
    for name, step in steps.items():
        if step.taken and not name.startswith("session_"):
            assert (name, 0, step.taken) in grown.told, name
            assert grown.told.index((name, 0, step.taken)) < grown.told.index((name, step.taken, step.taken)), name
    assert all(steps[name].rows for name in ("messages", "spans", "agent_daily", "topics_daily"))
