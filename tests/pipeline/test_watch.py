"""The lake kept fresh: what a stream reads is in bronze once, whoever else writes and whatever a checkpoint says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import LakeWatched, PipelineError
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.gold import AGENT_DAILY
from manydesks.pipeline.jobs.runs import latest
from manydesks.pipeline.jobs.tail import Tail
from manydesks.pipeline.jobs.watch import Round, Watch, level
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.lock import hold
from manydesks.pipeline.silver import MESSAGES
from manydesks.pipeline.sources.ledger import VIEWS, Window, read_view
from manydesks.pipeline.sources.stream import tail
from manydesks.pipeline.stop import Stop
from manydesks.testing.history import Shape, history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.pipeline.conftest import Ledger

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

SECONDS = 600.0


def quiet(step: str, done: int, total: int) -> None: ...


def bronze(lake: Path, spec: Any) -> list[tuple[Any, ...]]:
    """Without Spark."""
    found = [row for file in tables.files(lake, spec) for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(tuple(row[name] for name in spec.schema.names) for row in found)


def test_a_stream_gives_every_event_once_in_batches(ledger: Ledger, spark: SparkSession, tmp_path: Path) -> None:
    ledger.add(100)
    batches: list[list[tuple[Any, ...]]] = []

    def keep(rows: DataFrame, number: int) -> None:
        batches.append(sorted(map(tuple, rows.collect())))

    stream = tail(spark, ledger.path, 10, batch=40, window=15).writeStream.foreachBatch(keep)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        ledger.add(5)
        query.processAllAvailable()
        ledger.execute("delete from events where seq > 60")  # a store that was put back: an offset never goes back
        query.processAllAvailable()
    finally:
        query.stop()
    assert [(rows[0][0], rows[-1][0]) for rows in batches] == [(11, 50), (51, 90), (91, 100), (101, 105)]
    assert [row for rows in batches[:1] for row in rows] == ledger.events()[10:50]


def test_a_batch_adds_what_the_lake_lacks(ledger: Ledger, lake: Path, spark: SparkSession) -> None:
    """However it lies to the lake's mark: beyond it, across it, below it, or with a gap before it."""
    ledger.add(90)
    view = VIEWS["export_events"]

    def take(first: int, last: int) -> int:
        batch = pa.Table.from_batches(read_view(ledger.path, view, Window(first, last)))
        with hold(lake) as held:
            work = Tail(ledger.path, held, spark, quiet, SystemClock(), batch)
            work.go()
        assert bronze(lake, EVENTS) == ledger.events()[: work.report().to_seq]
        return work.report().rows

    assert take(1, 30) == 30
    assert take(1, 30) == 0
    assert take(11, 20) == 0
    assert take(21, 50) == 20
    # the texts come first, whatever the batch holds
    assert bronze(lake, BODIES) == ledger.bodies()
    # the lake was behind the stream, or is another one: the gap is read from the ledger
    assert take(61, 70) == 20
    shutil.rmtree(lake)
    assert take(81, 90) == 90


@contextmanager
def watched(ledger: Ledger, lake: Path, spark: SparkSession, folder: Path, **more: Any) -> Iterator[Watched]:
    watch = Watched(ledger, lake, spark, folder, **more)
    try:
        yield watch
    finally:
        watch.end()


class Watched:
    """A watch in a thread, as the command has it in a process."""

    def __init__(self, ledger: Ledger, lake: Path, spark: SparkSession, folder: Path, **more: Any) -> None:
        self.rounds: list[Round] = []
        self.marks: list[int] = []
        self.failure: Exception | None = None
        self._news = threading.Condition()
        self._stop = Stop()
        self.watch = Watch(
            ledger.path, lake, spark, folder, told=self._told, archived=self._archived, stop=self._stop, **more
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def until(self, found: Callable[[], object]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: found() or not self._thread.is_alive(), SECONDS)
        assert found(), self.failure

    def reached(self, seq: int, kind: str = "events") -> Callable[[], bool]:
        return lambda: any(round.kind == kind and round.to_seq >= seq for round in self.rounds)

    def end(self) -> None:
        self._stop.ask()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.watch.run()
        except PipelineError as error:
            self.failure = error
        with self._news:
            self._news.notify_all()

    def _told(self, round: Round) -> None:
        with self._news:
            self.rounds.append(round)
            self._news.notify_all()

    def _archived(self, seq: int) -> bool:
        self.marks.append(seq)
        return len(self.marks) != 1  # an office that does not answer the first time


def test_new_events_are_taken_as_they_come(ledger: Ledger, lake: Path, spark: SparkSession, tmp_path: Path) -> None:
    events = list(history(Shape(events=150, agents=2, days=1)))
    cuts = [60, 100, len(events)]
    ledger.tell(events[: cuts[0]])
    with watched(ledger, lake, spark, tmp_path, gold_seconds=0.0) as watch:
        watch.until(watch.reached(cuts[0], "gold"))
        ledger.tell(events[cuts[0] : cuts[1]])
        watch.until(watch.reached(cuts[1]))
        shutil.rmtree(tmp_path / "watch", ignore_errors=True)  # the checkpoint
        with hold(lake, patience=SECONDS):  # somebody works on the lake: it is waited for
            ledger.tell(events[cuts[1] :])
        with pytest.raises(LakeWatched):
            Watch(ledger.path, lake, spark, tmp_path, told=print, archived=bool, stop=Stop()).run()
        # another run beside it: nobody fails, nothing comes twice
        run(ledger.path, lake, spark, quiet, patience=SECONDS)
        watch.until(lambda: level(lake))
    assert watch.failure is None
    assert watch.marks[:2] == [cuts[0]] * 2  # told again
    assert watch.marks == sorted(watch.marks)
    assert tables.covered(lake, EVENTS, EVENTS.name) == len(events)
    assert bronze(lake, EVENTS) == ledger.events()
    assert bronze(lake, BODIES) == ledger.bodies()
    last = latest(lake)
    assert last is not None
    assert last["ok"]
    # the tables are compared with a rebuild where watches are killed: `test_kills.py`
    assert all(tables.count(lake, spec) for spec in (MESSAGES, AGENT_DAILY))


@pytest.mark.parametrize("asked", [True, False], ids=["asked to end", "not asked"])
def test_what_spark_says_of_an_end_that_was_asked_for_is_no_failure(
    ledger: Ledger, lake: Path, spark: SparkSession, tmp_path: Path, asked: bool
) -> None:
    """A signal to a whole group may end Spark's Python before its Java, and both before the watch."""
    ledger.add(3, trace=None)
    stop = Stop()

    def fail(round: Round) -> None:
        if asked:
            stop.ask()
        raise PySparkException("EOFException occurred while reading the port number from pyspark.daemon's stdout")

    watch = Watch(ledger.path, lake, spark, tmp_path, told=fail, archived=bool, stop=stop)
    with nullcontext() if asked else pytest.raises(PipelineError, match=r"fresh: EOFException .* stdout\.$"):
        watch.run()
    last = latest(lake)
    assert last is not None
    assert (last["job"], last["ok"], last["to_seq"]) == ("watch", asked, 3)


def test_a_store_that_is_gone_ends_it_with_a_sentence(
    ledger: Ledger, lake: Path, spark: SparkSession, tmp_path: Path
) -> None:
    ledger.add(3, trace=None)
    with watched(ledger, lake, spark, tmp_path) as watch:
        watch.until(watch.reached(3, "gold"))
        ledger.path.rename(tmp_path / "elsewhere.db")
        watch.until(lambda: watch.failure is not None)
    assert str(watch.failure).startswith(f"The pipeline failed: there is no store at {ledger.path}")
    last = latest(lake)
    assert last is not None
    assert (last["job"], last["ok"]) == ("watch", False)


def begin(home: Path, *args: str, **environ: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "MANYDESKS_HOME": str(home), "MANYDESKS_PIPELINE__MASTER": "local[2]", **environ}
    command = [sys.executable, "-m", "manydesks", *args]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, start_new_session=True
    )


def manydesks(home: Path, *args: str, **environ: str) -> tuple[int, str, str]:
    with begin(home, *args, **environ) as process:
        out, said = process.communicate(timeout=SECONDS)
    return process.returncode, out, said


@pytest.mark.parametrize("send", [
    lambda pid: os.kill(pid, signal.SIGTERM),
    # as `timeout` and some supervisors do: its Java ends as well
    pytest.param(lambda pid: os.killpg(pid, signal.SIGTERM), marks=pytest.mark.kills),
    pytest.param(lambda pid: os.kill(pid, signal.SIGINT), marks=pytest.mark.deep),
], ids=["SIGTERM", "SIGTERM-to-all", "SIGINT"])  # fmt: skip
def test_the_command_ends_well_when_it_is_asked_to(home: Path, send: Callable[[int], None]) -> None:
    assert manydesks(home, "agent", "add", "coder")[0] == 0
    with begin(home, "--json", "pipeline", "watch") as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())
        assert (first["round"], first["behind"]) == ("events", 0)
        assert first["toSeq"] == first["events"] > 0
        with closing(sqlite3.connect(home / "office.db")) as db:
            assert db.execute("select seq from marks where name = 'archived'").fetchone() == (first["toSeq"],)
        code, _, said = manydesks(home, "pipeline", "watch")
        assert (code, said.count("\n")) == (75, 1)
        assert f"(process {watch.pid}); one is enough" in said
        send(watch.pid)
        rest, said = watch.communicate(timeout=SECONDS)
    assert (watch.returncode, said) == (0, "")
    assert {json.loads(line)["round"] for line in rest.splitlines()} <= {"gold"}
