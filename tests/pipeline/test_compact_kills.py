"""kill -9 in the middle of `compact`: the rows stay what they were, and the next one removes what it left behind."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS
from manydesks.pipeline.commit import COMMITTED
from manydesks.pipeline.jobs.compact import compact
from manydesks.pipeline.lock import hold
from manydesks.pipeline.quality import check_no_gap
from manydesks.pipeline.sources.ledger import VIEWS, heads, windows
from manydesks.pipeline.sources.parquet import write_view
from manydesks.pipeline.tables import Mark

if TYPE_CHECKING:
    from tests.pipeline.conftest import Ledger

#: it dies when it is about to do this to the disk for the n-th time; no number: it says how often it did
KILLED = """
import os, signal, sys
from pathlib import Path
from manydesks.pipeline.jobs.compact import compact
lake, keep, fatal = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
done = 0

def counted(act):
    def do(*args, **more):
        global done
        done += 1
        if done == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*args, **more)
    return do

for name in ("fsync", "unlink", "rmdir", "mkdir", "open"):
    setattr(os, name, counted(getattr(os, name)))
compact(lake, lambda *_: None, keep_hours=keep)
print(done)
"""


def grow(ledger: Ledger, lake: Path, events: int) -> None:
    """A file of each table for every few rows, as many small runs leave them; without Spark."""
    ledger.add(events)
    ends = heads(ledger.path)
    with hold(lake) as held:
        for view, upto in ((VIEWS["export_bodies"], ends.bodies), (VIEWS["export_events"], ends.events)):
            spec = view.table
            tables.ensure(held, spec)
            for part in windows(tables.covered(lake, spec, spec.name), upto, 7):
                after, last = part.first - 1, part.last
                check = partial(check_no_gap, after=after, upto=last) if spec is EVENTS else lambda written: None
                write = partial(write_view, ledger.path, view, after, last)
                tables.append_files_once(held, spec, write, Mark(app=spec.name, version=last), SystemClock(), check)


def rows(lake: Path, spec: Any) -> list[tuple[Any, ...]]:
    found = [row for path in tables.files(lake, spec) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(tuple(row[name] for name in spec.schema.names) for row in found)


def start(lake: Path, keep: float, fatal: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, str(lake), str(keep), str(fatal)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.kills
@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.deep)])
def test_a_compact_that_is_killed_changes_no_row(ledger: Ledger, lake: Path, tmp_path: Path, kills: int) -> None:
    choice = random.Random(kills)
    for number in range(kills):
        grow(ledger, lake, 60)
        keep = (0, 168)[number % 2]
        whole = start(Path(shutil.copytree(lake, tmp_path / f"copy-{number}")), keep, 0)
        assert whole.returncode == 0, whole.stderr
        fatal = choice.randint(1, int(whole.stdout))
        assert start(lake, keep, fatal).returncode == -signal.SIGKILL
        assert (rows(lake, EVENTS), rows(lake, BODIES)) == (ledger.events(), ledger.bodies()), fatal
        with hold(lake) as held:
            tables.sweep(held)
        assert (rows(lake, EVENTS), rows(lake, BODIES)) == (ledger.events(), ledger.bodies()), fatal

    compact(lake, lambda *_: None, keep_hours=0)

    assert (rows(lake, EVENTS), rows(lake, BODIES)) == (ledger.events(), ledger.bodies())
    for spec in (EVENTS, BODIES, PIPELINE_RUNS):
        there = set((lake / spec.folder / "data").rglob("*.parquet"))
        assert there == {path.absolute() for path in tables.files(lake, spec)}, spec.name
        assert all((attempt / COMMITTED).exists() for attempt in (lake / spec.folder / "data").iterdir())
        assert len(tables.files(lake, spec)) <= 2  # of the table of runs, one about this
