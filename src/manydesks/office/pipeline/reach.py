"""How far the lake itself says that it reaches, read off its logs: a mark in the store stays when the lake is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.store.retention import Reach

if TYPE_CHECKING:
    from manydesks.settings.home import Home
    from manydesks.settings.model import PipelineSettings

#: the tables of events and of texts, each by what its log calls the last one that it holds
EVENTS, TEXTS = "events", "bodies"
#: the commits of a table, below the lake: files of JSON lines that are named by their numbers
COMMITS = "bronze/{}/_delta_log"


def lake_reach(settings: PipelineSettings, home: Home) -> Reach | None:
    """The last event and text that the lake holds; 0: none, or there is no lake. None: it lies on other machines, and
    is not asked. Blocks for a look at the newest commits."""
    if "://" in settings.lake:
        return None
    lake = settings.lake_folder(home.lake)
    return Reach(events=_reach(lake, EVENTS), texts=_reach(lake, TEXTS))


def _reach(lake: Path, table: str) -> int:
    commits = lake / COMMITS.format(table)
    try:
        # the newest that says so
        newest_first = sorted(commits.glob("*.json"), reverse=True)
        return next((reach for file in newest_first if (reach := _told(file, table))), 0)
    except OSError:
        return 0


def _told(file: Path, table: str) -> int:
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            told = json.loads(line).get("txn", {})
        except ValueError:  # half written, or no commit
            return 0
        if told.get("appId") == table:
            return int(told["version"])
    return 0
