"""`python -m benchmarks.queue`: runs the scenarios, prints the table, writes it down."""

from __future__ import annotations

import sqlite3
import sys
from importlib.metadata import version

import apsw

from benchmarks.part import Part
from benchmarks.queue import ballast, byhand, processors, verbs, wakeup
from benchmarks.report import HEAD

SCENARIOS = {
    "cycles": verbs.cycles,
    "sends": verbs.sends,
    "backlog": verbs.backlog,
    "batches": verbs.batches,
    "one-caller": byhand.one_caller,
    "ballast": ballast.ballast,
    "lane": ballast.lane,
    "processors": processors.processors,
    "wakeup": wakeup.wakeup,
}

EXPLAINED = """\
Rates are operations (send+receive+complete is one) or messages a second; CPU µs are of all threads of the process, for
one operation. Others are compared round by round in the same run. When others take more than a tenth of the machine,
CPU and ratios decide ("ok by CPU"). How to read the table: docs/benchmarks.md."""


def _versions() -> list[str]:
    packages = ", ".join(f"{name} {version(name)}" for name in ("huey", "litequeue"))
    return [
        f"SQLite {apsw.sqlite_lib_version()} (apsw: ours, by hand), {sqlite3.sqlite_version} (sqlite3: the peers); "
        f"{packages}"
    ]


QUEUE = Part(
    name="queue",
    summary="Measures the queue beside its peers.",
    scenarios=SCENARIOS,
    rounds=5,
    head=HEAD,
    explained=EXPLAINED,
    versions=_versions,
)


if __name__ == "__main__":
    sys.exit(QUEUE.run(sys.argv[1:]))
