"""How far the lake reaches, by its own log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manydesks.office.pipeline.reach import COMMITS, lake_reach
from manydesks.settings.home import Home
from manydesks.settings.model import PipelineSettings
from manydesks.store.retention import Reach


def commit(lake: Path, number: int, *actions: object, table: str = "events") -> None:
    commits = lake / COMMITS.format(table)
    commits.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(action)}\n" for action in actions)
    (commits / f"{number:020}.json").write_text(lines)


def reaching(seq: int, table: str = "events") -> dict[str, object]:
    return {"txn": {"appId": table, "version": seq}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def events(home: Home) -> int:
    reach = lake_reach(PipelineSettings(), home)
    assert reach is not None
    return reach.events


def test_the_newest_commit_that_says_so_counts(home: Home) -> None:
    assert events(home) == 0
    commit(home.lake, 0, {"metaData": {}})
    assert events(home) == 0
    commit(home.lake, 9, {"add": {}}, {"txn": {"appId": "making", "version": 12}}, reaching(70))
    commit(home.lake, 10, reaching(80))
    assert events(home) == 80
    # files were merged
    commit(home.lake, 11, {"remove": {}}, {"add": {}})
    assert events(home) == 80
    (home.lake / COMMITS.format("events") / f"{12:020}.json").write_text("not JSON")
    assert events(home) == 80


def test_texts_are_counted_by_their_own_table(home: Home) -> None:
    commit(home.lake, 0, reaching(80))
    assert lake_reach(PipelineSettings(), home) == Reach(events=80, texts=0)
    commit(home.lake, 0, reaching(7, "bodies"), {"txn": {"appId": "erasures", "version": 80}}, table="bodies")
    assert lake_reach(PipelineSettings(), home) == Reach(events=80, texts=7)


def test_another_place(home: Home, tmp_path: Path) -> None:
    commit(home.lake, 0, reaching(5))
    elsewhere = PipelineSettings(lake=str(tmp_path / "elsewhere"))
    assert lake_reach(elsewhere, home) == Reach(events=0, texts=0)
    commit(tmp_path / "elsewhere", 0, reaching(7))
    assert lake_reach(elsewhere, home) == Reach(events=7, texts=0)
    assert lake_reach(PipelineSettings(lake="s3://bucket/lake"), home) is None
