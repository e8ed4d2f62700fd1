"""kill -9 at random moments: whatever is left behind, the next run makes the lake equal to the ledger."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline import tables
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.schemas import BODIES, EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: many small transactions, so that a kill meets every step of one: the writing, the commit, and what follows it
SCRIPT = """
import sys
from pathlib import Path
from manydesks.pipeline.jobs import archive
from manydesks.pipeline.session import SparkOptions, session
db, lake, folder = map(Path, sys.argv[1:])
archive.CHUNK = 500
spark = session(SparkOptions(master="local[2]", folder=folder))
print("started", flush=True)
archive.archive(db, lake, spark, lambda *step: print(*step, flush=True))
"""


def run_and_kill(ledger: Any, lake: Path, folder: Path, choice: random.Random) -> subprocess.Popen[str]:
    """Lets a run commit a few times, then a little longer, and kills it; its Java may still be at work."""
    command = [sys.executable, "-c", SCRIPT, str(ledger.path), str(lake), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    for _ in range(choice.randint(0, 8)):
        process.stdout.readline()
    try:
        process.wait(timeout=choice.uniform(0, 0.5))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed: the test proves less than it says"
    return process


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.deep)])
def test_kill_9_loses_and_repeats_nothing(
    ledger: Any, lake: Path, spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    choice = random.Random(kills)
    killed = []
    for _ in range(kills):
        ledger.add(6_000)
        killed.append(run_and_kill(ledger, lake, tmp_path / "spark", choice))

    archive(ledger.path, lake, spark, lambda *_: None)  # while the last Java may still be ending

    for process in killed:
        with process:
            assert process.stdout is not None
            process.stdout.read()  # its Java holds the other end until it is gone
    archive(ledger.path, lake, spark, lambda *_: None)
    assert sorted(map(tuple, tables.read(spark, lake, EVENTS).collect())) == ledger.events()
    assert sorted(map(tuple, tables.read(spark, lake, BODIES).collect())) == ledger.bodies()
    for spec in (EVENTS, BODIES):
        live = {path.parent.name for path in tables.files(lake, spec)}
        assert {folder.name for folder in (lake / spec.folder / "data").iterdir()} == live


DEAD_JAVA = """
import sys
from pathlib import Path
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.session import SparkOptions, end, session
db, lake, folder = map(Path, sys.argv[1:])
spark = session(SparkOptions(master="local[2]", folder=folder))

def kill_java(step, done, total):
    if step == "events" and not done:
        spark.sparkContext._gateway.proc.kill()
        spark.sparkContext._gateway.proc.wait()

try:
    archive(db, lake, spark, kill_java)
except PipelineError as error:
    print(error)
end(spark)
"""


def test_a_java_that_dies_is_one_sentence(ledger: Any, lake: Path, spark: SparkSession, tmp_path: Path) -> None:
    ledger.add(100)
    command = [sys.executable, "-c", DEAD_JAVA, str(ledger.path), str(lake), str(tmp_path / "spark")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("Spark's Java has ended, perhaps for want of memory.\n")
    assert ran.stdout.count("\n") == 1
    assert archive(ledger.path, lake, spark, lambda *_: None).rows == 100
    assert sorted(map(tuple, tables.read(spark, lake, EVENTS).collect())) == ledger.events()
