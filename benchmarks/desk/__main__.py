"""`python -m benchmarks.desk`: runs the scenarios, prints the table, writes it down. Needs Linux with bubblewrap."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.desk import beside, crowd, inside, runners
from benchmarks.part import Part
from benchmarks.report import FACTS
from manydesks.runner.program import find_program

SCENARIOS = {
    "inside": inside.inside,
    "runners": runners.runners,
    "claude": beside.beside,
    "crowd": crowd.crowd,
}

EXPLAINED = """\
A turn is from before the message is sent to when its answer is in the store. By hand: the same claude over its own JSON
lines, without sandbox, proxy, tools or instructions. A time that was missed while others took much of the machine is
missed all the same: run it again on one that does nothing else. How to read the table: docs/benchmarks.md."""


def _versions() -> list[str]:
    programs = [program for program in (find_program("claude"), find_program("bwrap")) if program is not None]
    said = [subprocess.run([program, "--version"], capture_output=True, text=True, check=True) for program in programs]
    return ["; ".join(done.stdout.strip() for done in said)]


DESK = Part(
    name="desk",
    summary="Measures what a desk costs, beside the same program driven by hand.",
    scenarios=SCENARIOS,
    rounds=15,
    head=FACTS,
    explained=EXPLAINED,
    versions=_versions,
)


if __name__ == "__main__":
    sys.exit(DESK.run(sys.argv[1:]))
