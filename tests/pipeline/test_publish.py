"""Gold as a file that is read without Spark. No Spark here either: rows are put into the lake directly."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import BadInput, NoInsights
from manydesks.domain.insight import FILE, FLAGS, TABLES
from manydesks.insights.published import Insights
from manydesks.office.history import answer
from manydesks.pipeline import publish as publishing
from manydesks.pipeline import tables
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import GOLD, TERMS_DAILY
from manydesks.pipeline.lock import hold
from manydesks.pipeline.publish import publish, published, published_damage
from manydesks.testing.clock import ManualClock

SPECS = {spec.name: spec for spec in GOLD}


def row(spec: TableSpec, **given: Any) -> dict[str, Any]:
    """A row with a value in every column that must have one."""
    plain = {"bigint": 0, "double": 0.0, "boolean": False, "string": ""}
    made = {c.name: None if c.nullable else plain[c.type.simpleString()] for c in spec.columns}
    return made | given


def fill(lake: Path, seq: int, rows: dict[str, list[dict[str, Any]]]) -> None:
    """All tables of gold, up to this event."""
    with hold(lake) as held:
        for spec in GOLD:
            tables.ensure(held, spec)
            for given in rows.get(spec.name, ()):
                tables.append_row(held, spec, row(spec, **given), SystemClock())
            tables.advance(held, spec, tables.Mark(app=spec.name, version=seq), SystemClock())


ROWS = {
    "agent_daily": [
        {"day": "2026-01-01", "agent": "ada", "messages": 3, "cost_usd": 0.25},
        {"day": "2026-01-02", "agent": "ada", "messages": 4},
        {"day": "2026-01-02", "agent": "bob", "messages": 5},
    ],
    "handoff_matrix": [
        {"day": "2026-01-02", "from_agent": "ada", "to_agent": "bob", "handoffs": 2},
        {"day": "2026-01-02", "from_agent": "bob", "to_agent": "cy", "handoffs": 1},
    ],
    "topics_daily": [
        {"day": "2026-01-02", "agent": "ada", "term": term, "words": 1, "burst": burst}
        for term, burst in (("tea", 1.0), ("backup", 3.0), ("cake", 1.0))
    ],
    "busy_hours": [{"weekday": 1, "hour": 9, "agent": "ada", "messages": 3}],
    "terms_daily": [{"day": "2026-01-02", "agent": "ada", "term": "secret"}],
}


def test_every_table_but_the_counted_words_is_published() -> None:
    assert set(TABLES) == {spec.name for spec in GOLD} - {TERMS_DAILY.name}


def test_what_was_published_is_read(tmp_path: Path) -> None:
    fill(tmp_path, 70, ROWS)
    clock = ManualClock(now=5_000)
    told: list[tuple[int, int]] = []
    with hold(tmp_path) as held:
        done = publish(held, clock, lambda *rows: told.append(rows))
    assert (told[0], told[-1]) == ((0, 9), (9, 9))
    assert (done.path, done.to_seq, done.rows) == (tmp_path / FILE, 70, 9)
    assert done.path.stat().st_mode & 0o777 == 0o600
    insights = Insights(done.path)
    found = insights.table("agent_daily")
    assert [dict(zip(found.columns, values, strict=True))["agent"] for values in found.rows] == ["ada", "bob", "ada"]
    assert (found.stamp.seq, found.stamp.built_at, found.stamp.behind(100), found.stamp.behind(60)) == (
        70,
        5_000,
        30,
        0,
    )
    day, agent, cost = (found.columns.index(name) for name in ("day", "agent", "cost_usd"))
    assert [(v[day], v[agent], v[cost]) for v in found.rows][-1] == ("2026-01-01", "ada", 0.25)
    # the most unusual first, words alike by their letters
    topics = insights.table("topics_daily")
    assert [values[topics.columns.index("term")] for values in topics.rows] == ["backup", "cake", "tea"]
    assert not list(tmp_path.glob(f"{FILE}-*"))


def test_true_and_false_stay_what_they_are(tmp_path: Path) -> None:
    flags = {c.name for name in TABLES for c in SPECS[name].columns if c.type.simpleString() == "boolean"}
    others = {c.name for name in TABLES for c in SPECS[name].columns if c.type.simpleString() != "boolean"}
    assert flags == FLAGS
    assert not FLAGS & others
    died = [{"day": "2026-01-02", "message_id": f"m{at}", "died_at": at, "still_dead": at == 2} for at in (1, 2)]
    fill(tmp_path, 1, {"dead_letters": died})
    with hold(tmp_path) as held:
        publish(held, SystemClock())
    insights = Insights(tmp_path / FILE)
    found = insights.table("dead_letters")
    at = found.columns.index("still_dead")
    assert json.dumps([values[at] for values in found.rows]) == "[true, false]"
    told = answer(insights, {"questionId": "q1", "table": "dead_letters"}, head=1)
    assert json.dumps([one["still_dead"] for one in told["result"]["rows"]]) == "[true, false]"


def test_rows_can_be_chosen(tmp_path: Path) -> None:
    fill(tmp_path, 1, ROWS)
    with hold(tmp_path) as held:
        publish(held, SystemClock())
    insights = Insights(tmp_path / FILE)
    assert len(insights.table("agent_daily", agent="ada").rows) == 2
    assert len(insights.table("agent_daily", since="2026-01-02").rows) == 2
    assert len(insights.table("agent_daily", since="2026-01-01", until="2026-01-01").rows) == 1
    assert len(insights.table("handoff_matrix", agent="bob").rows) == 2
    some = insights.table("agent_daily", limit=2)
    assert (len(some.rows), some.more) == (2, True)
    for wrong, sentence in (
        ({"name": "events"}, "There is no table 'events'; there are agent_daily"),
        ({"name": "agent_daily", "since": "yesterday"}, "'from' must be a day as in 2026-01-31"),
        ({"name": "agent_daily", "until": "2026-02-31"}, "'to' must be a day"),
        ({"name": "agent_daily", "limit": 0}, "must be 1 to 1000"),
        ({"name": "busy_hours", "since": "2026-01-01"}, "takes neither 'from' nor 'to'"),
        ({"name": "trace_summary", "agent": "ada"}, "is not by agents"),
    ):
        with pytest.raises(BadInput, match=sentence):
            insights.table(**wrong)


def test_nothing_new_leaves_the_file_alone(tmp_path: Path) -> None:
    fill(tmp_path, 1, ROWS)
    with hold(tmp_path) as held:
        publish(held, SystemClock())
        before = (tmp_path / FILE).stat().st_ino
        assert publish(held, SystemClock()).rows == 0
    assert (tmp_path / FILE).stat().st_ino == before
    # also a change without new events, as when a text was erased
    with hold(tmp_path) as held:
        tables.append_row(held, SPECS["slo"], row(SPECS["slo"], day="2026-01-02", agent="ada"), SystemClock())
        assert publish(held, SystemClock()).rows == 10
    assert (tmp_path / FILE).stat().st_ino != before


@pytest.mark.parametrize("where", ["all", "end", "middle"])
def test_a_damaged_file_is_made_anew_though_nothing_is_new(tmp_path: Path, where: str) -> None:
    fill(tmp_path, 1, ROWS)
    path = tmp_path / FILE
    with hold(tmp_path) as held:
        rows = publish(held, SystemClock()).rows
        whole = path.read_bytes()
        middle = len(whole) // 2 // 4096 * 4096
        path.write_bytes(
            {
                "all": b"garbage" * 1000,
                "end": whole[:-5000],
                # what says how far the file reaches is as it was
                "middle": whole[:middle] + b"\x55" * 4096 + whole[middle + 4096 :],
            }[where]
        )
        assert published(tmp_path) == (1 if where == "middle" else None)
        assert str(published_damage(tmp_path)).startswith(f"{path}: ")
        assert publish(held, SystemClock()).rows == rows
    assert published_damage(tmp_path) is None
    assert len(Insights(path).table("agent_daily").rows) == 3


def test_one_that_was_killed_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 1, ROWS)
    with hold(tmp_path) as held:
        publish(held, SystemClock())
    fill(tmp_path, 2, ROWS)

    def stop(db: sqlite3.Connection, spec: TableSpec, rows: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, hold(tmp_path) as held:
        patch.setattr(publishing, "_fill", stop)
        with pytest.raises(KeyboardInterrupt):
            publish(held, SystemClock())
    assert Insights(tmp_path / FILE).stamp().seq == 1
    with hold(tmp_path) as held:
        publish(held, SystemClock())
    assert Insights(tmp_path / FILE).stamp().seq == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [".lock", ".next", FILE]


def test_large_tables_are_published_for_their_newest_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "DAYS", {"trace_summary": 2})
    rows = [{"day": f"2026-01-0{day}", "trace": f"t{day}", "started_at": day} for day in (1, 2, 3)]
    fill(tmp_path, 1, {"trace_summary": rows})
    with hold(tmp_path) as held:
        publish(held, SystemClock())
    found = Insights(tmp_path / FILE).table("trace_summary")
    assert [values[0] for values in found.rows] == ["2026-01-03", "2026-01-02"]


def test_a_lake_without_gold_has_no_file(tmp_path: Path) -> None:
    with hold(tmp_path) as held:
        assert publish(held, SystemClock()).rows == 0
    with pytest.raises(NoInsights, match=r"none are published yet; `manydesks pipeline run` makes them"):
        Insights(tmp_path / FILE).stamp()


def test_the_file_says_what_it_was_made_of(tmp_path: Path) -> None:
    fill(tmp_path, 3, {})
    with hold(tmp_path) as held:
        publish(held, SystemClock())
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        meta = dict(db.execute("select name, value from meta").fetchall())
    assert meta["to_seq"] == "3"
    assert json.loads(meta["versions"]).keys() == set(TABLES)
