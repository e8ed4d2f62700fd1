"""`python -m benchmarks.office`: runs the scenarios, prints the table, writes it down. Needs Linux."""

from __future__ import annotations

import sys

import apsw

from benchmarks.office import backlog, fanout, idle, pickup, sweep, through
from benchmarks.part import Part
from benchmarks.report import FACTS

SCENARIOS = {
    "idle": idle.idle,
    "pickup": pickup.pickup,
    "through": through.through,
    "sweep": sweep.sweep,
    "backlog": backlog.backlog,
    "fanout": fanout.fanout,
}

EXPLAINED = """\
All agents are played by rehearsal inside the host, with the default settings but where a line says otherwise. Memory is
what is resident; CPU is that of all threads of the host. A time that was missed while others took much of the machine
is missed all the same: run it again on one that does nothing else. How to read the table: docs/benchmarks.md."""

OFFICE = Part(
    name="office",
    summary="Measures what the office costs: idle, at work, and under a backlog.",
    scenarios=SCENARIOS,
    rounds=5,
    head=FACTS,
    explained=EXPLAINED,
    versions=lambda: [f"SQLite {apsw.sqlite_lib_version()}"],
)


if __name__ == "__main__":
    sys.exit(OFFICE.run(sys.argv[1:]))
