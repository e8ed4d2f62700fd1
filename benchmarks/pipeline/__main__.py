"""`python -m benchmarks.pipeline`: runs the scenarios, prints the table, writes it down. Needs Linux."""

from __future__ import annotations

import sys

import deltalake
import duckdb
import pyspark

from benchmarks.part import Part
from benchmarks.pipeline import peer, reading, small, whole
from benchmarks.report import FACTS

SCENARIOS = {
    "reading": reading.reading,
    "whole": whole.whole,
    "small": small.small,
    "peer": peer.peer,
}

EXPLAINED = """\
The history is made up, by `manydesks pipeline simulate` and always the same. Commands are run as a person would, from a
cold start, with `--master local[2]` and the default settings; CPU and memory are those of all their processes. A time
that was missed while others took much of the machine is missed all the same. How to read the table:
docs/benchmarks.md."""

PIPELINE = Part(
    name="pipeline",
    summary="Measures the data pipeline: reading, a whole run, a small one, gold beside DuckDB.",
    scenarios=SCENARIOS,
    rounds=2,
    head=FACTS,
    explained=EXPLAINED,
    versions=lambda: [f"Spark {pyspark.__version__}, deltalake {deltalake.__version__}, DuckDB {duckdb.__version__}"],
)


if __name__ == "__main__":
    sys.exit(PIPELINE.run(sys.argv[1:]))
