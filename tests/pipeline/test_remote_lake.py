"""A lake in an object store. delta-rs speaks to an S3 server, whose objects are files in a folder; Spark, which has no
package for S3 here, finds the same folder under the same names through Hadoop's `ViewFileSystemOverloadScheme`."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import LakeBusy, PipelineError
from manydesks.domain.insight import FILE
from manydesks.domain.mail import Ack, Inbound, Outbound, Step
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS, SESSION_MESSAGES
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.jobs.archive import archive
from manydesks.pipeline.jobs.compact import compact
from manydesks.pipeline.jobs.watch import Watch, level
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.lock import LOCK, hold
from manydesks.pipeline.place import Place, place_of, readable
from manydesks.pipeline.remote import Remote
from manydesks.pipeline.report.facts import gather
from manydesks.pipeline.schemas import TABLES
from manydesks.pipeline.silver import TRANSCRIPTS
from manydesks.pipeline.stop import Stop
from manydesks.settings.home import Home
from manydesks.testing.history import Shape, history
from manydesks.testing.s3 import ACCESS_KEY, S3, SECRET_KEY, serve
from manydesks.testing.simulate import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Grown, Ledger


OVERLOAD = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
ROW = {"job": "run", "started_at": 1, "ended_at": 2, "seconds": 0.1, "ok": True}
#: made of the history; the others tell of the runs
COMPARED = [spec for spec in TABLES.values() if spec.layer in ("bronze", "silver", "gold")]
#: what tells of a run, not of what it read
OWN = ("looked_at", "young", "batch")
PATIENCE = 600


def quiet(*words: object) -> None: ...


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """Few keys in a list, so that each one turns its page."""
    with serve(tmp_path_factory.mktemp("s3"), page=7) as started:
        yield started


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    yield server
    server.refuse(None)


@pytest.fixture
def remote(s3: S3, tmp_path: Path) -> Remote:
    """A lake in a bucket of its own."""
    name = f"bucket-{tmp_path.name.replace('_', '-').lower()}"
    s3.bucket(name)
    lake = place_of(f"s3://{name}/the/lake", tmp_path / "beside")
    assert isinstance(lake, Remote)
    return lake


def folder_of(s3: S3, lake: Remote) -> Path:
    return s3.folder / lake.root.removeprefix("s3://")


def spark_options(s3: S3, lake: Remote) -> dict[str, str]:
    """What makes Hadoop take the bucket for the folder."""
    bucket = lake.root.removeprefix("s3://").partition("/")[0]
    return {
        "fs.s3a.impl": OVERLOAD,
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{bucket}.linkFallback": (s3.folder / bucket).as_uri(),
    }


@pytest.fixture
def over_s3(spark: SparkSession, s3: S3, remote: Remote) -> SparkSession:
    context: Any = spark.sparkContext
    for name, value in spark_options(s3, remote).items():
        context._jsc.hadoopConfiguration().set(name, value)
    return spark


def contents(lake: Place) -> dict[str, list[Any]]:
    """Every row of every table, read without Spark."""
    found = {}
    for spec in (spec for spec in COMPARED if tables.exists(lake, spec)):
        rows = [row for path in tables.files(lake, spec) for row in pq.ParquetFile(readable(path)).read().to_pylist()]
        told = [{name: row[name] for name in row if name not in OWN} for row in rows]
        found[spec.name] = sorted(told, key=repr)
    return found


def test_rows_are_added_and_found_and_merged(s3: S3, remote: Remote) -> None:
    clock = SystemClock()
    for number in range(3):
        with hold(remote) as held:
            tables.append_row(held, PIPELINE_RUNS, {**ROW, "rows": number}, clock)
    assert tables.count(remote, PIPELINE_RUNS) == 3
    assert [row["rows"] for row in lookup.find(remote, PIPELINE_RUNS, "rows", 1)] == [1]
    assert tables.present(remote) == [PIPELINE_RUNS]
    data = folder_of(s3, remote) / PIPELINE_RUNS.folder / "data"
    assert len(list(data.rglob("*.parquet"))) == 3

    [done] = compact(remote, quiet, clock, keep_hours=0)

    assert (done.files_before, done.files_after, done.freed.files) == (3, 1, 3)
    assert tables.count(remote, PIPELINE_RUNS) == 4  # and the row about this
    assert len(list(data.rglob("*.parquet"))) == 2
    log = sorted(path.name for path in (data.parent / "_delta_log").iterdir())
    assert log[0].endswith("checkpoint.parquet"), "the entries before it are gone"
    put = [asked for asked in s3.asked() if asked.method == "PUT" and asked.key.endswith(".json")]
    assert len({asked.key for asked in put}) == len(put), "no entry was written twice"


def test_what_cannot_lie_there_is_in_the_home(s3: S3, remote: Remote) -> None:
    with hold(remote) as held:
        assert held.folder == remote
        assert (remote.beside / LOCK).read_text().strip() == str(os.getpid())
        with pytest.raises(LakeBusy, match=f"works on the lake {remote} "), hold(remote):
            pass
    assert not folder_of(s3, remote).exists()


def test_a_killed_attempt_goes_with_a_vacuum_that_is_younger(s3: S3, remote: Remote) -> None:
    with hold(remote) as held:
        tables.append_row(held, PIPELINE_RUNS, ROW, SystemClock())
        left = folder_of(s3, remote) / PIPELINE_RUNS.folder / "data" / "0123" / "_temporary" / "part.parquet"
        left.parent.mkdir(parents=True)
        left.touch()
        tables.sweep(held)  # it may be another office's
    compact(remote, quiet, keep_hours=1)
    assert left.exists()
    compact(remote, quiet, keep_hours=0)
    assert not left.exists()
    assert tables.count(remote, PIPELINE_RUNS) == 3


def test_of_two_writers_one_is_refused(remote: Remote, tmp_path: Path) -> None:
    """Their locks are those of two machines."""
    elsewhere = place_of(str(remote), tmp_path / "elsewhere")
    clock = SystemClock()
    with hold(remote) as here, hold(elsewhere) as there:
        for held in (here, there):
            tables.ensure(held, PIPELINE_RUNS)
        tables.append_row(there, PIPELINE_RUNS, {**ROW, "rows": 1}, clock)
        with pytest.raises(PipelineError, match="somebody else, perhaps another office, has written to s3://"):
            tables.append_row(here, PIPELINE_RUNS, {**ROW, "rows": 2}, clock)
        tables.append_row(there, PIPELINE_RUNS, {**ROW, "rows": 3}, clock)
    with hold(remote) as held:
        tables.append_row(held, PIPELINE_RUNS, {**ROW, "rows": 4}, clock)
    found = [row["rows"] for number in range(5) for row in lookup.find(remote, PIPELINE_RUNS, "rows", number)]
    assert found == [1, 3, 4]


def test_of_two_who_commit_at_the_same_moment_one_is_refused(s3: S3, remote: Remote, tmp_path: Path) -> None:
    """Not one that looks again before: the server takes the next entry of the log from one of them alone."""
    with hold(remote) as held:
        tables.append_row(held, PIPELINE_RUNS, ROW, SystemClock())
    go = tmp_path / "go"
    command = [sys.executable, "-c", RACER, str(remote), str(tmp_path), str(go)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    go.touch()
    added = 0
    for racer in racers:
        out, _ = racer.communicate(timeout=PATIENCE)
        assert racer.returncode == 0
        words = out.split()
        assert set(words) <= {"added", "refused"}
        added += words.count("added")
    assert tables.count(remote, PIPELINE_RUNS) == 1 + added
    assert added >= 1


RACER = """
import os, sys, time
from pathlib import Path
from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import PipelineError
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.bronze import PIPELINE_RUNS
from manydesks.pipeline.lock import hold
from manydesks.pipeline.place import place_of
lake, folder, go = place_of(sys.argv[1], Path(sys.argv[2]) / f"home-{os.getpid()}"), *map(Path, sys.argv[2:])
row = {"job": "run", "started_at": 1, "ended_at": 2, "seconds": 0.1, "ok": True}
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
for _ in range(5):
    with hold(lake) as held:
        try:
            tables.append_row(held, PIPELINE_RUNS, row, SystemClock())
            print("added")
        except PipelineError as error:
            assert "somebody else" in str(error), error
            print("refused")
"""


@pytest.mark.parametrize(("code", "words"), [("AccessDenied", "AccessDenied"), ("SlowDown", "503")])
def test_a_store_that_refuses_is_one_sentence(s3: S3, remote: Remote, code: str, words: str) -> None:
    s3.refuse(code)
    with pytest.raises(PipelineError) as refused, disk_refusals(remote):
        tables.present(remote)
    said = str(refused.value)
    assert said.startswith(f"The pipeline failed: {remote} cannot be used, ")
    assert words in said
    assert "\n" not in said
    assert s3.url not in said


@pytest.mark.parametrize("metadata", [{"DISABLED": "true"}, {"SERVICE_ENDPOINT": "http://127.0.0.1:1"}])
def test_a_store_without_credentials_is_one_sentence(tmp_path: Path, metadata: dict[str, str]) -> None:
    """Wherever the machine is: what delta-rs asks it about itself is not answered."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environ |= {f"AWS_EC2_METADATA_{name}": value for name, value in metadata.items()}
    environ |= {"HOME": str(tmp_path), "MANYDESKS_HOME": str(tmp_path), "MANYDESKS_PIPELINE__LAKE": "s3://bucket/lake"}
    command = [sys.executable, "-m", "manydesks", "pipeline", "tables"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("manydesks: The pipeline failed: s3://bucket/lake cannot be used, it takes no request")
    assert "AWS_ACCESS_KEY_ID" in ran.stderr
    assert ran.stderr.count("\n") == 1


def whole(folder: Path) -> str:
    """Every file, Parquet unpacked."""
    texts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            texts.append(json.dumps(pq.ParquetFile(path).read().to_pylist(), default=str))
        else:
            texts.append(path.read_bytes().decode("latin-1"))
    return "\n".join(texts)


def data_files(lake: Path) -> list[Path]:
    """Of all tables, older versions included; a log may have Parquet files of its own."""
    return [path for path in lake.rglob("*.parquet") if path.parent.name != "_delta_log"]


def talk(home: Path, session: str, text: str) -> None:
    """A mailbox in which one thing was asked and answered."""
    folder = home / "sessions" / "coder" / session
    host = HostMailbox(folder, session=session, agent="coder")
    host.prepare()
    host.put([Inbound(id="api_1", run="run_1", fence=1, kind="chat", at=7, content={"text": text}, tries=1)])
    desk = DeskMailbox(folder / "in", folder / "out")
    desk.open()
    about: dict[str, Any] = {"run": "run_1", "at": 8}
    answer = Outbound(id="out_1", fence=1, in_reply_to="api_1", kind="chat", content={"text": text}, **about)
    desk.write(
        steps=[Step(type="text", data={"text": text}, **about)],
        messages=[answer],
        acks=[Ack(message="api_1", fence=1, status="completed", **about)],
    )
    # one that was just written is looked into once more
    for path in folder.rglob("*.db"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tables_are_those_of_a_folder(
    ledger: Ledger, lake: Path, grown: Grown, remote: Remote, over_s3: SparkSession, s3: S3, tmp_path: Path
) -> None:
    """The folder is one that was grown already, of the same events."""
    events = grown.events()
    shutil.copytree(grown.lake, lake)
    ledger.tell(events[: grown.first])
    ledger.execute("update bodies set text = '', erased_at = 5 where id = ?", grown.erased)
    talk(tmp_path, "s1", "what a desk was told")
    run(ledger.path, remote, over_s3, quiet)
    [gone] = [row["text"] for row in lookup.find(remote, BODIES, "id", 3)]
    assert json.dumps(gone)[1:-1] in whole(folder_of(s3, remote))

    ledger.tell(events[grown.first :])
    talk(tmp_path, "s2", "and another")
    ledger.add(1, kind="body_erased", trace=None, message=None)
    ledger.execute("update events set body = 3 where kind = 'body_erased'")
    ledger.execute(
        "update bodies set text = '', erased_at = (select at from events where kind = 'body_erased') where id = 3"
    )
    for place in (remote, lake):
        run(ledger.path, place, over_s3, quiet)
    expected = contents(lake)
    assert contents(remote) == expected
    assert all(expected[name] for name in ("events", "bodies", "spans", "topics_daily", SESSION_MESSAGES.name))
    assert level(remote)

    # nothing new is nothing written, and little is read: what lies in a table's log is asked for once, or twice
    versions = {spec.name: tables.version(remote, spec) for spec in COMPARED}
    before = len(s3.asked())
    run(ledger.path, remote, over_s3, quiet)
    entries = [asked for asked in s3.asked()[before:] if asked.method == "GET" and asked.key.endswith(".json")]
    assert len(entries) < 4 * len(COMPARED)
    assert {spec.name: tables.version(remote, spec) for spec in COMPARED} == versions

    # what is published, and the page, need neither Spark nor the store
    shown, there = gather(remote, 92), gather(lake, 92)
    assert shown is not None
    assert there is not None
    assert replace(shown, built_at=0) == replace(there, built_at=0)
    assert (remote.beside / FILE).is_file()
    assert not list(folder_of(s3, remote).rglob(FILE))

    before = len(data_files(folder_of(s3, remote)))
    compact(remote, quiet, keep_hours=0)
    assert contents(remote) == expected
    assert len(data_files(folder_of(s3, remote))) < before
    assert json.dumps(gone)[1:-1] not in whole(folder_of(s3, remote))


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_compacted_lake_grows_and_is_made_anew_there(ledger: Ledger, remote: Remote, over_s3: SparkSession) -> None:
    events = list(history(Shape(events=200, agents=2, days=2, seed=11)))
    ledger.tell(events[:120])
    run(ledger.path, remote, over_s3, quiet)
    compact(remote, quiet, keep_hours=0)
    ledger.tell(events[120:])
    run(ledger.path, remote, over_s3, quiet)
    grown = contents(remote)
    run(ledger.path, remote, over_s3, quiet, rebuild=True)
    assert contents(remote) == grown
    assert all(grown[name] for name in ("events", "bodies", "spans", "topics_daily"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_another_office_is_refused(
    ledger: Ledger, remote: Remote, over_s3: SparkSession, tmp_path: Path, make_ledger: Any
) -> None:
    ledger.add(40)
    archive(ledger.path, remote, over_s3, quiet)
    (tmp_path / "other").mkdir()
    other = make_ledger(tmp_path / "other" / "office.db")
    other.add(60, session="s2")
    elsewhere = place_of(str(remote), tmp_path / "other" / "lake")
    with pytest.raises(PipelineError, match=r"is not the same in the lake s3://.* belongs to another office"):
        run(other.path, elsewhere, over_s3, quiet)
    assert tables.count(remote, EVENTS) == 40


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_watch_keeps_it_fresh(ledger: Ledger, remote: Remote, over_s3: SparkSession, tmp_path: Path) -> None:
    events = list(history(Shape(events=300, agents=2, days=2, seed=12)))
    ledger.tell(events[:200])
    stop, news = Stop(), threading.Condition()
    reached: list[int] = []

    def told(round: Any) -> None:
        with news:
            reached.append(round.to_seq)
            news.notify_all()

    watch = Watch(ledger.path, remote, over_s3, tmp_path, told=told, archived=lambda seq: True, stop=stop)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        with news:
            assert news.wait_for(lambda: 200 in reached, PATIENCE)
        ledger.tell(events[200:])
        with news:
            assert news.wait_for(lambda: len(events) in reached, PATIENCE)
    finally:
        stop.ask()
        thread.join()
    run(ledger.path, remote, over_s3, quiet)
    found = sorted(map(tuple, tables.read(over_s3, remote, EVENTS).collect()))
    assert found == ledger.events()


RUN = """
import sys
from pathlib import Path
from manydesks.pipeline.jobs import archive, whole
from manydesks.pipeline.place import place_of
from manydesks.pipeline.session import SparkOptions, session
import json
db, lake, folder, options = Path(sys.argv[1]), place_of(sys.argv[2], Path(sys.argv[3])), Path(sys.argv[4]), sys.argv[5]
archive.CHUNK = 150
spark = session(SparkOptions(master="local[2]", folder=folder, further=json.loads(options)))
print("started", flush=True)
whole.run(db, lake, spark, lambda *words: print(*words, flush=True))
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [pytest.param(10, marks=pytest.mark.deep)])
def test_a_run_that_is_killed_loses_and_repeats_nothing(
    ledger: Ledger, lake: Path, remote: Remote, over_s3: SparkSession, s3: S3, tmp_path: Path, kills: int
) -> None:
    choice = random.Random(kills + 200)
    events = history(Shape(events=300 * kills + 200, agents=3, days=2, seed=kills))
    further = {f"spark.hadoop.{name}": value for name, value in spark_options(s3, remote).items()}
    command = [sys.executable, "-c", RUN, str(ledger.path), str(remote), str(remote.beside), str(tmp_path / "spark")]
    for _ in range(kills):
        ledger.tell([event for event, _ in zip(events, range(300), strict=False)])
        with subprocess.Popen([*command, json.dumps(further)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(1 + choice.choice((choice.randint(0, 6), choice.randint(0, 40)))):
                assert process.stdout.readline()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=choice.uniform(0, 0.5))
            process.kill()
            process.stdout.read()  # its Java ends a moment later
        assert process.returncode == -signal.SIGKILL, "it ended before it was killed: the test proves less than it says"
    ledger.tell(events)
    for place in (lake, remote):
        run(ledger.path, place, over_s3, quiet, patience=PATIENCE)
    assert contents(remote) == contents(lake)
    compact(remote, quiet, keep_hours=0)
    assert contents(remote) == contents(lake)
    # and of what the killed ones left nothing is there
    there = {path.relative_to(folder_of(s3, remote)).as_posix() for path in folder_of(s3, remote).rglob("*.parquet")}
    known = {path.relative_to(remote).as_posix() for spec in TABLES.values() for path in remote_files(remote, spec)}
    assert {name for name in there if "/data/" in name} == known


def remote_files(lake: Remote, spec: Any) -> list[Remote]:
    return [path for path in tables.files(lake, spec) if isinstance(path, Remote)]


class Person:
    """Who types commands about an office whose lake is in the store."""

    def __init__(self, home: Path, s3: S3, lake: Remote, options: dict[str, str], **environ: str) -> None:
        table = ", ".join(f'"spark.hadoop.{name}" = "{value}"' for name, value in options.items())
        self.said = ""
        self._environ = {
            **os.environ,
            **s3.environ,
            "MANYDESKS_HOME": str(home),
            "MANYDESKS_PIPELINE__LAKE": str(lake),
            "MANYDESKS_PIPELINE__SPARK": f"{{{table}}}",
            "MANYDESKS_PIPELINE__SHUFFLE_PARTITIONS": "2",
            "MANYDESKS_PIPELINE__MEMORY": "1g",
            **environ,
        }

    def types(self, *words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "manydesks", *words]
        ran = subprocess.run(command, env=self._environ, capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.said += ran.stdout + ran.stderr
        assert ran.returncode == code, (words, ran.stderr)
        if code:
            assert ran.stdout == ""
            return ran.stderr
        return ran.stdout


@pytest.fixture
def office(home: Path) -> Home:
    made = Home(home)
    simulate(made, Shape(events=400, agents=3, days=3, seed=5), lambda done: None)
    return made


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_works(office: Home, remote: Remote, s3: S3, spark: SparkSession, tmp_path: Path) -> None:
    lake = replace(remote, beside=office.lake)
    run(office.office_db, tmp_path / "lake", spark, quiet)
    person = Person(office.path, s3, lake, spark_options(s3, lake))

    assert "level with the ledger" in person.types("pipeline", "run")
    assert contents(lake) == contents(tmp_path / "lake")
    assert "all alike" in person.types("pipeline", "status", "--check")
    assert json.loads(person.types("pipeline", "status", "--json"))["lake"] == str(lake)
    counted = json.loads(person.types("pipeline", "query", "--json", "select count(*) from events"))
    assert counted["rows"] == [[tables.count(lake, EVENTS)]]
    told = {one["table"]: one for one in json.loads(person.types("pipeline", "tables", "--json"))["tables"]}
    assert told["transcripts"]["rows"] == tables.count(lake, TRANSCRIPTS)
    talks = [json.loads(line) for line in person.types("pipeline", "export").splitlines()]
    assert talks
    assert all(talk["messages"] for talk in talks)
    person.types("pipeline", "report", "--out", str(tmp_path / "page.html"))
    assert "<html" in (tmp_path / "page.html").read_text()
    person.types("pipeline", "compact", "--vacuum", "--keep", "0h", "--yes")
    person.types("pipeline", "rebuild", "--yes")
    assert contents(lake) == contents(tmp_path / "lake")
    person.types("backup", str(tmp_path / "a.backup"))

    logs = "".join(path.read_text(errors="replace") for path in office.logs.iterdir())
    assert SECRET_KEY not in person.said + logs
    assert ACCESS_KEY not in person.said + logs
    assert sorted(path.name for path in office.lake.iterdir()) == [".lock", ".next", FILE]


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_makes_the_same_tables(
    office: Home, remote: Remote, s3: S3, spark: SparkSession, tmp_path: Path
) -> None:
    run(office.office_db, tmp_path / "lake", spark, quiet)
    person = Person(office.path, s3, remote, spark_options(s3, remote))
    assert "level with the ledger" in person.types("pipeline", "run", "--master", "local-cluster[2,1,1024]")
    assert contents(remote) == contents(tmp_path / "lake")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_spark_that_knows_no_such_place_says_so(
    office: Home, remote: Remote, s3: S3, kept_java: Mapping[str, str]
) -> None:
    said = Person(office.path, s3, remote, {}, **kept_java).types("pipeline", "run", code=1)
    assert said.startswith("manydesks: The pipeline failed: this Spark cannot read s3a:// places: name the package")
    assert said.count("\n") == 1
