"""A lake in an object store. delta-rs speaks to an S3 server, whose objects are files in a folder; Spark, which has no
package for S3 here, finds the same folder under the same names through Hadoop's `ViewFileSystemOverloadScheme`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import LakeBusy, PipelineError
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import PIPELINE_RUNS, SESSION_FILES
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.jobs.compact import compact
from manydesks.pipeline.lock import LOCK, hold
from manydesks.pipeline.place import Place, place_of, readable
from manydesks.pipeline.remote import Remote
from manydesks.pipeline.schemas import TABLES
from manydesks.testing.s3 import S3, serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVERLOAD = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
ROW = {"job": "run", "started_at": 1, "ended_at": 2, "seconds": 0.1, "ok": True}
#: made of the history; the others tell of the runs
COMPARED = [spec for spec in TABLES.values() if spec.layer in ("bronze", "silver", "gold")]
#: files that tell when they were looked into differ from one run to the next
OWN = ("looked_at", "young")
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
    """What makes Hadoop take the lake for the folder."""
    bucket, _, path = lake.root.removeprefix("s3://").partition("/")
    folder_of(s3, lake).mkdir(parents=True, exist_ok=True)
    return {
        "fs.s3a.impl": OVERLOAD,
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{bucket}.link./{path}": folder_of(s3, lake).as_uri(),
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
        for row in rows if spec is SESSION_FILES else ():
            for name in OWN:
                del row[name]
        found[spec.name] = sorted(rows, key=repr)
    return found


def test_rows_are_added_and_found_and_merged(s3: S3, remote: Remote) -> None:
    clock = SystemClock()
    for number in range(3):
        with hold(remote) as held:
            tables.append_row(held, PIPELINE_RUNS, {**ROW, "rows": number}, clock)
    assert tables.count(remote, PIPELINE_RUNS) == 3
    assert [row["rows"] for row in tables.find(remote, PIPELINE_RUNS, "rows", 1)] == [1]
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
    found = [row["rows"] for number in range(5) for row in tables.find(remote, PIPELINE_RUNS, "rows", number)]
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
from manydesks.pipeline import tables
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
