"""The same jobs on a cluster: pyspark's own master and workers on this machine, and `local-cluster`, give the same
tables as `local[2]`."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq
import pyspark

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.java import find_java, write_launcher
from manydesks.pipeline.jobs.export import Wanted, export
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.query import query
from manydesks.pipeline.schemas import TABLES
from manydesks.pipeline.sources.ledger import heads
from manydesks.settings.home import Home
from manydesks.testing.history import Shape
from manydesks.testing.office import OfficeProcess
from manydesks.testing.simulate import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SECRET = "not-for-the-command-line"
#: made of the history; the others tell of the runs
COMPARED = [spec for spec in TABLES.values() if spec.layer in ("bronze", "silver", "gold")]
#: every part lives for seconds here: the quick compiler alone, and one thread that collects garbage
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: the word of a worker that its master knows
REGISTERED = "Successfully registered with master"
#: a wait that ends long before the test does
PATIENCE = 600


def contents(lake: Path) -> dict[str, list[Any]]:
    """Every row of every table, read without Spark."""
    found = {}
    for spec in (spec for spec in COMPARED if tables.exists(lake, spec)):
        rows = [row for path in tables.files(lake, spec) for row in pq.ParquetFile(path).read().to_pylist()]
        found[spec.name] = sorted(rows, key=repr)
    return found


@dataclass
class Process:
    """A part of the cluster; what it says is read all the time, so that it never waits for us."""

    name: str
    popen: subprocess.Popen[str]
    lines: queue.Queue[str] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    def _listen(self) -> None:
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            self.lines.put(line)
        self.lines.put("")

    def wait_for(self, words: str) -> str:
        said = []
        while line := self.lines.get(timeout=PATIENCE):
            said.append(line)
            if words in line:
                return line
        raise AssertionError(f"{self.name} has ended without '{words}': {''.join(said[-20:])}")

    def end(self) -> None:
        with self.popen:  # closes what it spoke through
            self.popen.kill()
            self.popen.wait()
            self._ear.join()


@dataclass
class Cluster:
    """A standalone master on a free port, with as many workers as are asked for."""

    folder: Path
    environ: dict[str, str]
    processes: list[Process] = field(default_factory=list)
    url: str = ""

    def start(self) -> None:
        master = self._java("master", "org.apache.spark.deploy.master.Master")
        self.url = "spark://" + master.wait_for("Starting Spark master at ").split("spark://")[1].strip()
        master.wait_for("I have been elected leader")

    def add_worker(self, *, before: tuple[str, ...] = ()) -> Process:
        """It says `REGISTERED` when it is there; who asks for work before waits for it."""
        name = f"worker-{len(self.processes)}"
        words = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name), self.url]
        return self._java(name, "org.apache.spark.deploy.worker.Worker", *words, before=before)

    def _java(self, name: str, main: str, *words: str, before: tuple[str, ...] = ()) -> Process:
        listens = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        options = ["--properties-file", str(self.folder / "cluster.properties")]
        command = [*before, str(SPARK_CLASS), main, *listens, *options, *words]
        popen = subprocess.Popen(
            command, env=self.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        process = Process(name=name, popen=popen)
        self.processes.append(process)
        return process


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    folder.mkdir()
    home = write_launcher(find_java(os.environ), folder / "java", Path("/dev/stderr"))
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("MANYDESKS_", "PYTHON"))}
    daemons = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": BRIEF}
    environ = {**quiet, "JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **daemons}
    # nobody but those who know the secret may run code in this cluster
    secret = folder / "cluster.properties"
    secret.touch(mode=0o600)
    secret.write_text(f"spark.authenticate=true\nspark.authenticate.secret={SECRET}\n")
    cluster = Cluster(folder=folder, environ=environ)
    try:
        cluster.start()
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.end()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter as a worker may have it: every package that is installed here, but for manydesks."""
    folder = tmp_path_factory.mktemp("bare")
    packages = folder / "packages"
    packages.mkdir()
    for found in Path(pyspark.__file__).parents[1].iterdir():
        if "manydesks" not in found.name and found.suffix != ".pth":
            (packages / found.name).symlink_to(found)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "here.pth").write_text(f"{packages}\n")
    asked = [python, "-c", "import pyarrow, pandas, importlib.util as u; print(u.find_spec('manydesks'))"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True, cwd=folder).stdout == "None\n"
    return python


@dataclass(frozen=True, kw_only=True)
class Office:
    """A home with a history, and what `local[2]` makes of it."""

    home: Path
    expected: dict[str, list[Any]]

    def copy(self, to: Path) -> Path:
        return Path(shutil.copytree(self.home, to))


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Office:
    folder = tmp_path_factory.mktemp("office")
    home = Home(folder / "home")
    simulate(home, Shape(events=200, agents=2, days=2, seed=5), lambda done: None)
    run(home.office_db, folder / "lake", spark, lambda *_: None, SystemClock())
    expected = contents(folder / "lake")
    assert all(expected[name] for name in ("events", "bodies", "messages", "spans", "agent_daily", "topics_daily"))
    return Office(home=home.path, expected=expected)


def start(
    home: Path, python: Path, *words: str, program: tuple[str, ...] = ("-m", "manydesks")
) -> subprocess.Popen[str]:
    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "secret:cluster",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": BRIEF,
        # what a worker had that is gone is not asked for again and again
        "spark.shuffle.io.retryWait": "100ms",
        "spark.pyspark.python": str(python),
    }
    table = ", ".join(f'"{name}" = "{value}"' for name, value in options.items())
    variables = {
        **os.environ,
        "MANYDESKS_HOME": str(home),
        "MANYDESKS_PIPELINE__SPARK": f"{{{table}}}",
        "MANYDESKS_PIPELINE__SHUFFLE_PARTITIONS": "2",
        "MANYDESKS_PIPELINE__MEMORY": "1g",
        "MANYDESKS_SECRET_CLUSTER": SECRET,
    }
    command = [sys.executable, *program, "pipeline", *words]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def manydesks(
    home: Path, python: Path, *words: str, program: tuple[str, ...] = ("-m", "manydesks")
) -> tuple[int, str, str]:
    with start(home, python, *words, program=program) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


@pytest.mark.kills
def test_a_standalone_cluster_that_loses_a_worker_makes_the_same_tables(
    office: Office, bare_python: Path, tmp_path: Path
) -> None:
    home = office.copy(tmp_path / "home")
    lake, traces = home / "lake", TABLES["traces"]
    with standalone(tmp_path / "cluster") as cluster:
        workers = [cluster.add_worker() for _ in range(2)]
        with start(home, bare_python, "run", "--master", cluster.url) as process:
            try:
                for worker in workers:
                    worker.wait_for(REGISTERED)
                while process.poll() is None and not tables.covered(lake, traces, traces.name):
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=0.2)
                assert process.returncode is None, "it ended before it was disturbed: the test proves less than it says"
                workers[0].end()
                out, err = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        if process.returncode == 0:
            assert err == ""
            assert "level with the ledger" in out
        else:
            assert err.startswith("manydesks: The pipeline failed: ")
            assert err.count("\n") == 1
            assert manydesks(home, bare_python, "run", "--master", cluster.url)[0] == 0
        assert contents(lake) == office.expected


SHIPPED = """
import sys
from pathlib import Path
from manydesks.pipeline.session import SparkOptions, end, session

def where(_):
    import manydesks.pipeline.sources.ledger as found
    return found.__file__, sys.executable

options = {"spark.pyspark.python": sys.argv[2]}
spark = session(SparkOptions(master="local-cluster[2,1,1024]", folder=Path(sys.argv[1]), further=options))
for file, python in spark.sparkContext.parallelize(range(2), 2).map(where).collect():
    print(file, python)
end(spark)
"""


@pytest.mark.deep
def test_the_package_is_shipped_to_the_workers(bare_python: Path, tmp_path: Path, spark: SparkSession) -> None:
    command = [sys.executable, "-c", SHIPPED, str(tmp_path / "spark"), str(bare_python)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (ran.returncode, ran.stderr) == (0, "")
    for line in ran.stdout.splitlines():
        file, python = line.split()
        assert file.endswith("manydesks.zip/manydesks/pipeline/sources/ledger.py")
        assert python == str(bare_python)
    assert len(ran.stdout.splitlines()) == 2
    # what the workers had is gone with them
    assert list((tmp_path / "spark" / "home" / "work").iterdir()) == []


@pytest.mark.deep  # and every time, on a cluster of real workers: above
def test_local_cluster_makes_the_same_tables(office: Office, bare_python: Path, tmp_path: Path) -> None:
    home = office.copy(tmp_path / "home")
    code, _, err = manydesks(home, bare_python, "run", "--master", "local-cluster[2,1,1024]")
    assert (code, err) == (0, "")
    assert contents(home / "lake") == office.expected


IMPATIENT = """
from manydesks.cli.main import main
from manydesks.pipeline import executors

executors.PATIENCE_SECONDS = 6
main()
"""


@pytest.mark.deep
def test_a_cluster_without_workers_is_one_sentence(office: Office, tmp_path: Path, spark: SparkSession) -> None:
    home = office.copy(tmp_path / "home")
    run(home / "office.db", home / "lake", spark, lambda *_: None)
    with standalone(tmp_path / "cluster") as cluster:
        asked = ("query", "select count(agent) from messages", "--master", cluster.url)
        code, out, err = manydesks(home, Path(sys.executable), *asked, program=("-c", IMPATIENT))
        assert (code, out) == (1, "")
        assert f"since {cluster.url} had no executor for it in 6 seconds" in err
        assert err.count("\n") == 1
        # nobody has given up for good
        cluster.add_worker().wait_for(REGISTERED)
        assert manydesks(home, Path(sys.executable), *asked)[::2] == (0, "")


#: what tells of a reading, not of what was read
READING = ("batch", "looked_at", "young")
ASKED = "SELECT agent, count(*) AS messages, max(created_at) AS last FROM messages GROUP BY agent ORDER BY agent"


def rows_alone(lake: Path) -> dict[str, list[Any]]:
    """Without what differs between two lakes of one office."""
    found = contents(lake)
    return {
        name: sorted(({key: row[key] for key in row if key not in READING} for row in rows), key=repr)
        for name, rows in found.items()
    }


@pytest.mark.deep
def test_a_watch_a_query_and_an_export_on_a_cluster(
    home: Path, bare_python: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """Of a real office, whose mailboxes have rows; everything is the same as `local[2]` makes it."""
    master = ("--master", "local-cluster[2,1,1024]")
    office = OfficeProcess(home)
    office.start()
    try:
        office.ask("first\n!tool nothing {}\n!say one")
        with start(home, bare_python, "watch", *master, "--json") as watch:
            try:
                rounds(watch, heads(home / "office.db").events)
                office.ask("second\n!say two")
                office.stop()
                rounds(watch, heads(home / "office.db").events)
                watch.terminate()
                _, err = watch.communicate(timeout=PATIENCE)
            finally:
                watch.kill()
        assert (watch.returncode, err) == (0, "")
    finally:
        office.stop()
    run(home / "office.db", tmp_path / "lake", spark, lambda *_: None)
    expected = rows_alone(tmp_path / "lake")
    assert rows_alone(home / "lake") == expected
    assert all(expected[name] for name in ("session_messages", "session_steps", "session_acks", "transcripts"))

    code, out, err = manydesks(home, bare_python, "status", "--check", *master)
    assert (code, err) == (0, "")
    assert "all alike" in out

    code, out, err = manydesks(home, bare_python, "query", "--json", ASKED, *master)
    assert (code, err) == (0, "")
    there = query(tmp_path / "lake", ASKED, spark)
    assert json.loads(out) == {"columns": list(there.columns), "rows": [list(row) for row in there.rows]}

    code, out, err = manydesks(home, bare_python, "export", *master)
    assert (code, err) == (0, "")
    told = list(export(tmp_path / "lake", spark, Wanted(), lambda text: text, lambda *_: None))
    assert [json.loads(line) for line in out.splitlines()] == told
    assert len(told) == 2


def rounds(watch: subprocess.Popen[str], seq: int) -> None:
    """Waits until gold reaches the event."""
    assert watch.stdout is not None
    for line in watch.stdout:
        round = json.loads(line)
        if round["round"] == "gold" and round["toSeq"] >= seq:
            return
    raise AssertionError(f"the watch has ended: {watch.stderr.read() if watch.stderr else ''}")


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed: apt install bubblewrap")
def test_a_worker_that_has_another_folder_is_one_sentence(
    office: Office, bare_python: Path, tmp_path: Path, spark: SparkSession
) -> None:
    home = office.copy(tmp_path / "home")
    run(home / "office.db", home / "lake", spark, lambda *_: None)
    elsewhere = ("bwrap", "--dev-bind", "/", "/", "--tmpfs", str(home / "lake" / "silver"), "--die-with-parent")
    with standalone(tmp_path / "cluster") as cluster:
        cluster.add_worker(before=elsewhere).wait_for(REGISTERED)
        asked = ("query", "select count(agent) from messages", "--master", cluster.url)
        code, out, err = manydesks(home, bare_python, *asked)
        assert (code, out) == (1, "")
        assert "the lake must lie where every machine of the cluster can read and write it" in err
        assert err.count("\n") == 1

        code, out, err = manydesks(home, bare_python, "rebuild", "--yes", "--master", cluster.url)
        assert (code, out) == (1, "")
        assert "the lake must lie where every machine of the cluster can read and write it" in err
        assert err.count("\n") == 1
    assert contents(home / "lake") == office.expected
