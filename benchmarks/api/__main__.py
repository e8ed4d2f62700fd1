"""`python -m benchmarks.api`: runs the scenarios, prints the table, writes it down. Needs Linux."""

from __future__ import annotations

import sys
from importlib.metadata import version

import apsw

from benchmarks.api import accept, follow, status
from benchmarks.part import Part
from benchmarks.report import FACTS

SCENARIOS = {"accept": accept.accept, "status": status.status, "follow": follow.follow}

EXPLAINED = """\
The office and whoever asks it run on the same machine, each in a process of its own, with the default settings. The
server is uvicorn with h11, in the office's own loop. A time that was missed while others took much of the machine is
missed all the same: run it again on one that does nothing else. How to read the table: docs/benchmarks.md."""

API = Part(
    name="api",
    summary="Measures what the API costs, and how soon those who follow the events hear of them.",
    scenarios=SCENARIOS,
    rounds=5,
    head=FACTS,
    explained=EXPLAINED,
    versions=lambda: [
        f"SQLite {apsw.sqlite_lib_version()}; fastapi {version('fastapi')}, uvicorn {version('uvicorn')}, "
        f"h11 {version('h11')}, pydantic {version('pydantic')}"
    ],
)


if __name__ == "__main__":
    sys.exit(API.run(sys.argv[1:]))
