"""How far the lake itself says that it reaches, read off its log: a mark in the store stays when the lake is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manydesks.settings.home import Home
    from manydesks.settings.model import PipelineSettings

#: the commits of the table of events, below the lake, each a file of JSON lines that is named by its number
COMMITS = "bronze/events/_delta_log"
#: what the table calls the last event that it holds
MARK = "events"


def lake_reach(settings: PipelineSettings, home: Home) -> int | None:
    """The last event that the lake holds; 0: none, or there is no lake. None: it lies on other machines, and is not
    asked. Blocks for a look at the newest commits."""
    if "://" in settings.lake:
        return None
    commits = settings.lake_folder(home.lake) / COMMITS
    try:
        # the newest that says so: one that only merges files says nothing
        return next((reach for file in sorted(commits.glob("*.json"), reverse=True) if (reach := _told(file))), 0)
    except OSError:
        return 0


def _told(file: Path) -> int:
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            told = json.loads(line).get("txn", {})
        except ValueError:  # half written, or no commit
            return 0
        if told.get("appId") == MARK:
            return int(told["version"])
    return 0
