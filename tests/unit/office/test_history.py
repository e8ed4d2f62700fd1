"""What an agent is told of the past."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.insight import VERSION
from manydesks.insights.published import Insights
from manydesks.office import history


@pytest.fixture
def insights(tmp_path: Path) -> Insights:
    path = tmp_path / "gold.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table meta (name text primary key, value text)")
        rows = {"version": VERSION, "to_seq": 40, "built_at": 9}
        db.executemany("insert into meta values (?, ?)", [(name, str(value)) for name, value in rows.items()])
        db.execute("create table slo (day text, agent text, ratio real)")
        db.executemany(
            "insert into slo values (?, 'ada', ?)", [(f"2026-01-{day:02}", None) for day in range(20, 0, -1)]
        )
        db.execute("create table trace_summary (day text, critical_path text)")
        db.executemany("insert into trace_summary values ('2026-01-01', ?)", [("x" * 25_000,)] * 5)
        db.commit()
    return Insights(path)


def test_rows_and_how_old_they_are(insights: Insights) -> None:
    told = history.answer(insights, {"questionId": "q1", "table": "slo", "to": "2026-01-02", "limit": 1}, head=55)
    assert (told["questionId"], told["status"]) == ("q1", "answered")
    assert told["result"] == {
        "table": "slo",
        "rows": [{"day": "2026-01-02", "agent": "ada"}],  # what is not known is left out
        "more": True,
        "seq": 40,
        "beginsAt": 1,
        "builtAt": 9,
        "behind": 15,
        "ahead": 0,
    }


def test_it_is_not_more_than_a_model_can_read(insights: Insights) -> None:
    told = history.answer(insights, {"questionId": "q1", "table": "trace_summary"}, head=40)
    assert (len(told["result"]["rows"]), told["result"]["more"]) == (2, True)


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ({}, "'table' must be one of agent_daily"),
        ({"table": "messages"}, "There is no table 'messages'; there are agent_daily"),
        ({"table": "slo", "agent": 3}, "are texts"),
        ({"table": "slo", "limit": "many"}, "from 1 to 200"),
        ({"table": "slo", "limit": 1_000}, "from 1 to 200"),
        ({"table": "slo", "limit": True}, "from 1 to 200"),
        ({"table": "slo", "from": "monday"}, "'from' must be a day as in 2026-01-31"),
        ({"table": "slo", "to": 3}, "'agent', 'from' and 'to' are texts"),
        (
            {"table": "slo", "from": "2026-01-03", "to": "2026-01-02"},
            "'from' is 2026-01-03, which is after 'to', 2026-01-02; name the earlier day first.",
        ),
        ({"table": "trace_summary", "agent": "ada"}, "is not by agents"),
    ],
)
def test_what_cannot_be_asked(insights: Insights, payload: dict[str, Any], sentence: str) -> None:
    told = history.answer(insights, {"questionId": "q1", **payload}, head=40)
    assert told["status"] == "refused"
    assert sentence in told["result"]


def test_without_a_pipeline_it_says_so(tmp_path: Path) -> None:
    told = history.answer(Insights(tmp_path / "gold.db"), {"questionId": "q1", "table": "slo"}, head=40)
    assert told["status"] == "refused"
    assert "`manydesks pipeline run` makes them" in told["result"]
