"""kill -9 at random moments, of the driver, its Java or a worker: whatever is left behind, the next run makes the lake
equal to the ledger, and its tables to what they would be if they were made at once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.desk.sandboxes import tree
from manydesks.pipeline import tables
from manydesks.pipeline.commit import COMMITTED
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.jobs.watch import Watch
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.schemas import BODIES, EVENTS
from manydesks.pipeline.silver import MESSAGES, SILVER
from manydesks.pipeline.stop import Stop
from manydesks.settings.home import Home
from manydesks.testing.history import Made, Shape, history
from manydesks.testing.simulate import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.columns import TableSpec
    from tests.pipeline.conftest import Damage, Ledger, TableRows

pytestmark = [pytest.mark.kills, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

#: many small transactions, so that a kill meets every step of one: the writing, the commit, and what follows it
BEGIN = """
import sys
from pathlib import Path
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.jobs import archive, whole
from manydesks.pipeline.jobs.watch import Watch
from manydesks.pipeline.session import SparkOptions, session
from manydesks.pipeline.stop import Stop, listening
db, lake, folder = map(Path, sys.argv[1:])
archive.CHUNK = 150

def say(*words):
    print(*words, flush=True)

class Loud(Watch):
    def _progress(self, *step):
        say(*step)
        super()._progress(*step)

spark = session(SparkOptions(master="local[2]", folder=folder))
say("started")
"""
RUN = """
work = lambda: whole.run(db, lake, spark, say)
"""
WATCH = """
stop = Stop()
stop.listen()
watch = Loud(db, lake, spark, folder, told=say, archived=lambda seq: True, stop=stop, gold_seconds=0.0, batch=20)
work = watch.run
"""
END = """
try:
    work()
except PipelineError as error:
    sys.exit(str(error))
"""

#: whom a kill meets; a worker that is not there yet is waited for
VICTIMS = ("driver", "java", "worker")


def quiet(step: str, done: int, total: int) -> None: ...


class Killed:
    """A process that is at work on the lake, and whom it has started."""

    def __init__(self, script: str, ledger: Ledger, lake: Path, folder: Path) -> None:
        command = [sys.executable, "-c", BEGIN + script + END, str(ledger.path), str(lake), str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.step() == "started\n"

    def step(self) -> str:
        """What it does next; empty: it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self, victim: str, choice: random.Random) -> bool:
        """False: there is no such process yet."""
        found = [self.process.pid] if victim == "driver" else self._members(victim)
        if found:
            tree.send(choice.choice(found), signal.SIGKILL)
        return bool(found)

    def ended(self, victim: str) -> None:
        """It ends by itself, or goes on without the victim and is asked to end. One whose driver is dead has a Java
        that lives a moment longer, and is not waited for."""
        if victim == "driver":
            assert self.process.wait() == -signal.SIGKILL
            return
        if "stop.listen" in " ".join(self.process.args) and victim == "worker":  # type: ignore[arg-type]
            self.process.terminate()
        _, said = self.process.communicate()
        assert self.process.returncode in (0, 1)
        assert "Traceback" not in said
        if victim == "java":
            assert self.process.returncode == 1
            assert "Spark's Java has ended" in said

    def gone(self) -> None:
        """Its Java too."""
        with self.process:
            assert self.process.stdout is not None
            while not self.process.stdout.closed and self.process.stdout.read(1 << 16):
                pass

    def _members(self, victim: str) -> list[int]:
        names = {"java": ("java", "-cp"), "worker": ("pyspark.daemon", "streaming_source")}[victim]
        found = []
        for pid in sorted(tree.of_session(self.process.pid) - {self.process.pid}):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it has just ended
            if any(name in line for name in names) and ("java" in line.split("\0")[0]) == (victim == "java"):
                found.append(pid)
        return found


def feed(ledger: Ledger, events: Iterator[Made], many: int) -> None:
    ledger.tell([event for event, _ in zip(events, range(many), strict=False)])


def check(ledger: Ledger, lake: Path, spark: SparkSession, table_rows: Any) -> None:
    run(ledger.path, lake, spark, quiet, patience=600)
    assert sorted(map(tuple, tables.read(spark, lake, EVENTS).collect())) == ledger.events()
    assert sorted(map(tuple, tables.read(spark, lake, BODIES).collect())) == ledger.bodies()
    grown = {spec.name: table_rows(lake, spec) for spec in (*SILVER, *GOLD)}
    run(ledger.path, lake, spark, quiet, rebuild=True)
    for spec in (*SILVER, *GOLD):
        assert table_rows(lake, spec) == grown[spec.name], spec.name
        for attempt in (lake / spec.folder / "data").iterdir():
            assert (attempt / COMMITTED).exists(), attempt


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.deep)])
def test_a_run_that_is_killed_loses_and_repeats_nothing(
    ledger: Ledger, lake: Path, spark: SparkSession, tmp_path: Path, table_rows: Any, kills: int
) -> None:
    choice = random.Random(kills)
    events = history(Shape(events=300 * kills, agents=3, days=2, seed=kills))
    killed = []
    for number in range(kills):
        feed(ledger, events, 300)
        victim = VICTIMS[number % 3]
        killed.append(one := Killed(RUN, ledger, lake, tmp_path / "spark"))
        # a run has about fifty steps, those of the archive first; half of the kills meet those
        for _ in range(choice.choice((choice.randint(0, 6), choice.randint(0, 40)))):
            one.step()
        with suppress(subprocess.TimeoutExpired):
            one.process.wait(timeout=choice.uniform(0, 0.5))
        while not one.kill(victim, choice):
            assert one.step(), "it ended before it was killed: the test proves less than it says"
        one.ended(victim)
    feed(ledger, events, 1000)
    run(ledger.path, lake, spark, quiet, patience=600)  # while the last Java may still be ending
    for one in killed:
        one.gone()
    check(ledger, lake, spark, table_rows)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.deep)])
def test_a_watch_that_is_killed_loses_and_repeats_nothing(
    ledger: Ledger, lake: Path, spark: SparkSession, tmp_path: Path, table_rows: Any, kills: int
) -> None:
    choice = random.Random(kills + 100)
    events = history(Shape(events=400 * kills, agents=3, days=2, seed=kills + 1))
    killed = []
    for number in range(kills):
        victim = VICTIMS[(number + 2) % 3]
        feed(ledger, events, 30)
        killed.append(one := Killed(WATCH, ledger, lake, tmp_path / "spark"))
        for _ in range(choice.randint(5, 90)):  # a round of events has some twenty steps, one of gold as many
            assert one.step()
            feed(ledger, events, 2)
        while not one.kill(victim, choice):
            assert one.step()
        one.ended(victim)
        if number % 2:
            shutil.rmtree(tmp_path / "spark" / "watch", ignore_errors=True)  # the checkpoint, if any is left
    feed(ledger, events, 1000)
    run(ledger.path, lake, spark, quiet, patience=600)
    for one in killed:
        one.gone()
    check(ledger, lake, spark, table_rows)


def kill_rebuild(home: Path, layer: Sequence[TableSpec]) -> None:
    """As soon as the command has made a table of this layer anew: others of it are still to come."""
    lake = home / "lake"
    before = {spec.name: tables.version(lake, spec) for spec in layer}
    variables = {**os.environ, "MANYDESKS_HOME": str(home), "MANYDESKS_PIPELINE__MASTER": "local[2]"}
    command = [sys.executable, "-m", "manydesks", "pipeline", "rebuild", "--yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, start_new_session=True) as process:
        while before == {spec.name: tables.version(lake, spec) for spec in layer}:
            assert process.poll() is None, "it ended before it was killed"
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert process.stdout is not None
        assert process.stdout.read() == b""  # until its Java is gone too
    assert not all(tables.version(lake, spec) > before[spec.name] for spec in layer)


def manydesks(home: Path, *words: str) -> str:
    variables = {**os.environ, "MANYDESKS_HOME": str(home)}
    command = [sys.executable, "-m", "manydesks", *words]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True).stdout


def status(home: Path) -> Any:
    return json.loads(manydesks(home, "pipeline", "status", "--json"))


@pytest.mark.deep  # and every time, with one that is stopped at the same places: `test_gold.py`
def test_a_rebuild_that_is_killed_is_taken_up(
    home: Path, spark: SparkSession, tmp_path: Path, table_rows: TableRows, damage: Damage
) -> None:
    """By a run, and by a watch; also if something was archived since."""
    simulate(Home(home), Shape(events=400, agents=2, days=2), lambda done: None)
    db, lake = home / "office.db", home / "lake"
    run(db, lake, spark, quiet)
    expected = {spec.name: table_rows(lake, spec) for spec in (*SILVER, *GOLD)}

    damage(lake)
    kill_rebuild(home, SILVER)
    assert "A rebuild was broken off before its end." in manydesks(home, "pipeline", "status")
    value = status(home)
    assert (0 < len(value["rebuilding"]["silver"]) < len(SILVER), len(value["rebuilding"]["gold"])) == (True, len(GOLD))
    assert (value["level"], value["behind"]) == (False, 0)
    manydesks(home, "agent", "add", "another")
    run(db, lake, spark, quiet, patience=600)
    assert {spec.name: table_rows(lake, spec) for spec in (*SILVER, *GOLD)} == expected
    assert status(home)["rebuilding"] is None

    damage(lake)
    kill_rebuild(home, GOLD)
    left = status(home)["rebuilding"]
    assert (left["silver"], 0 < len(left["gold"]) < len(GOLD), left["published"]) == ([], True, True)
    stop = Stop()
    Watch(db, lake, spark, tmp_path, told=lambda round: stop.ask(), archived=bool, stop=stop, gold_seconds=0.0).run()
    assert {spec.name: table_rows(lake, spec) for spec in (*SILVER, *GOLD)} == expected
    assert status(home)["level"]
    run(db, lake, spark, quiet, rebuild=True)
    assert {spec.name: table_rows(lake, spec) for spec in (*SILVER, *GOLD)} == expected


DEAD_JAVA = """
import sys
from pathlib import Path
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.session import SparkOptions, end, session
db, lake, folder = map(Path, sys.argv[1:])
spark = session(SparkOptions(master="local[2]", folder=folder))

def kill_java(step, done, total):
    if step == "events" and not done:
        spark.sparkContext._gateway.proc.kill()
        spark.sparkContext._gateway.proc.wait()

try:
    run(db, lake, spark, kill_java)
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
    assert tables.reached(lake, MESSAGES) == 0
    run(ledger.path, lake, spark, lambda *_: None)
    assert tables.reached(lake, MESSAGES) == 100
    assert sorted(map(tuple, tables.read(spark, lake, EVENTS).collect())) == ledger.events()
