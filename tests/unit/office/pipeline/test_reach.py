"""How far the lake reaches, by its own log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manydesks.office.pipeline.reach import COMMITS, lake_reach
from manydesks.settings.home import Home
from manydesks.settings.model import PipelineSettings


def commit(lake: Path, number: int, *actions: object) -> None:
    (lake / COMMITS).mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(action)}\n" for action in actions)
    (lake / COMMITS / f"{number:020}.json").write_text(lines)


def reaching(seq: int) -> dict[str, object]:
    return {"txn": {"appId": "events", "version": seq}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_the_newest_commit_that_says_so_counts(home: Home) -> None:
    settings = PipelineSettings()
    assert lake_reach(settings, home) == 0
    commit(home.lake, 0, {"metaData": {}})
    assert lake_reach(settings, home) == 0
    commit(home.lake, 9, {"add": {}}, {"txn": {"appId": "making", "version": 12}}, reaching(70))
    commit(home.lake, 10, reaching(80))
    assert lake_reach(settings, home) == 80
    # files were merged
    commit(home.lake, 11, {"remove": {}}, {"add": {}})
    assert lake_reach(settings, home) == 80
    (home.lake / COMMITS / f"{12:020}.json").write_text("not JSON")
    assert lake_reach(settings, home) == 80


def test_another_place(home: Home, tmp_path: Path) -> None:
    commit(home.lake, 0, reaching(5))
    elsewhere = PipelineSettings(lake=str(tmp_path / "elsewhere"))
    assert lake_reach(elsewhere, home) == 0
    commit(tmp_path / "elsewhere", 0, reaching(7))
    assert lake_reach(elsewhere, home) == 7
    assert lake_reach(PipelineSettings(lake="s3://bucket/lake"), home) is None
