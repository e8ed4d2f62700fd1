"""A worker that stands still past its lease and goes on: whatever it says then is refused.

Run as a script, this file is that worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.queue import AsyncQueue, Message, Processor, Queue
from manydesks.queue.file import ear_folder
from manydesks.store.database import open_reader
from manydesks.testing.jobs import trouble

LEASE = 0.4


# the worker: says what it has got, and does the next thing when it is told to


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def by_hand(path: str) -> None:
    queue = Queue(path, lease=LEASE)
    message = queue.receive()
    assert message is not None
    say(fence=message.fence, attempt=message.attempt)
    sys.stdin.readline()
    # complete comes first: the others would look at the lease for it
    say(completed=queue.complete(message), extended=queue.extend(message, 60), released=queue.release(message))


def threads(path: str) -> None:
    def handle(message: Message) -> None:
        say(fence=message.fence, attempt=message.attempt)
        sys.stdin.readline()

    Processor(Queue(path, lease=LEASE), handle, concurrency=1).run()


async def tasks(path: str) -> None:
    async def handle(message: Message) -> None:
        say(fence=message.fence, attempt=message.attempt)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    running = Processor(AsyncQueue(path, lease=LEASE), handle, concurrency=1).run()
    assert running is not None
    await running


def within(path: str) -> None:
    """Stands still in the middle of a transaction."""
    queue = Queue(path)
    with queue.transaction() as tx:
        queue.send("half", tx=tx)
        say(begun=True)
        sys.stdin.readline()
    say(ended=True)


WORKERS: dict[str, Callable[[str], Any]] = {
    "by_hand": by_hand,
    "threads": threads,
    "tasks": tasks,
    "within": within,
}


class Worker:
    def __init__(self, kind: str, jobs: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, kind, str(jobs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def tell(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go on\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "jobs.db"
    shutil.rmtree(ear_folder(tmp_path / "jobs.db"), ignore_errors=True)


@pytest.fixture
def start(jobs: Path) -> Iterator[Callable[[str], Worker]]:
    started: list[Worker] = []

    def start(kind: str) -> Worker:
        started.append(Worker(kind, jobs))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()


def received_by(queue: Queue) -> Message:
    deadline = time.monotonic() + 20
    while (message := queue.receive()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return message


def told(jobs: Path) -> list[str]:
    """What became of the one job."""
    db = open_reader(jobs)
    kinds = [kind for (kind,) in db.execute("select kind from events where job = 1 order by seq")]
    db.close()
    return kinds


def until_over(jobs: Path) -> None:
    """The lease of the only claim has ended; nobody has looked."""
    db = open_reader(jobs)
    ((until,),) = db.execute("select until from claims").fetchall()
    db.close()
    time.sleep(max(0.0, until / 1000 - time.clock_gettime(time.CLOCK_MONOTONIC)) + 0.002)


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_worker_that_was_replaced(jobs: Path, start: Callable[[str], Worker], lane: str | None) -> None:
    with closing(Queue(jobs, lease=60)) as queue:
        queue.send("x", lane=lane)
        worker = start("by_hand")
        first = worker.heard()
        worker.stop()
        message = received_by(queue)
        assert (message.attempt, message.fence > first["fence"]) == (2, True)
        worker.go_on()
        worker.tell()
        assert worker.heard() == {"extended": False, "completed": False, "released": False}
        assert queue.complete(message)
    assert told(jobs) == ["sent", "claimed", "retried", "claimed", "completed"]
    assert trouble(jobs, lease_ms=int(LEASE * 1000)) == []


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_worker_that_nobody_replaced(jobs: Path, start: Callable[[str], Worker], lane: str | None) -> None:
    """Its lease is over all the same, and the job is ready."""
    with closing(Queue(jobs, lease=60)) as queue:
        queue.send("x", lane=lane)
        worker = start("by_hand")
        worker.heard()
        worker.stop()
        until_over(jobs)
        worker.go_on()
        worker.tell()
        assert worker.heard() == {"extended": False, "completed": False, "released": False}
        message = queue.receive()
        assert message is not None
        assert message.attempt == 2
    assert trouble(jobs, lease_ms=int(LEASE * 1000)) == []


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_processor_that_was_replaced(jobs: Path, start: Callable[[str], Worker], kind: str) -> None:
    """Its heartbeat comes back with it, and revives nothing."""
    with closing(Queue(jobs, lease=60)) as queue:
        queue.send("x")
        worker = start(kind)
        first = worker.heard()
        worker.stop()
        message = received_by(queue)
        assert (message.attempt, message.fence > first["fence"]) == (2, True)
        worker.go_on()
        worker.tell()
        # it has settled its first job, in vain, when it is given another
        queue.send("next")
        assert worker.heard()["attempt"] == 1
        assert queue.complete(message)
    assert told(jobs) == ["sent", "claimed", "retried", "claimed", "completed"]
    assert trouble(jobs, lease_ms=int(LEASE * 1000)) == []


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_processor_that_nobody_replaced(jobs: Path, start: Callable[[str], Worker], kind: str) -> None:
    """It may have the job again, as any other: as a new attempt, after the old one was counted."""
    with closing(Queue(jobs, lease=60)) as queue:
        queue.send("x")
        worker = start(kind)
        first = worker.heard()
        worker.stop()
        until_over(jobs)
        worker.go_on()
        worker.tell()
        second = worker.heard()
        assert (second["attempt"], second["fence"] > first["fence"]) == (2, True)
        worker.tell()
        deadline = time.monotonic() + 20
        while queue.stats()["completed"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert told(jobs) == ["sent", "claimed", "retried", "claimed", "completed"]
    assert trouble(jobs, lease_ms=int(LEASE * 1000)) == []


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_processor_that_is_slow_keeps_its_job(jobs: Path, start: Callable[[str], Worker], kind: str) -> None:
    with closing(Queue(jobs, lease=60)) as queue:
        queue.send("x")
        worker = start(kind)
        worker.heard()
        deadline = time.monotonic() + 4 * LEASE
        while time.monotonic() < deadline:
            assert queue.receive() is None
            time.sleep(0.02)
        worker.tell()
        queue.send("next")
        worker.heard()
    assert told(jobs) == ["sent", "claimed", "completed"]


@pytest.mark.slow
def test_a_process_that_stands_still_in_a_transaction(jobs: Path, start: Callable[[str], Worker]) -> None:
    """The others wait for it; if it dies, nothing of it was ever there."""
    with closing(Queue(jobs)) as queue:
        worker = start("within")
        worker.heard()
        worker.stop()
        worker.kill()
        assert queue.send("whole") == 1
        assert [job.body for job in queue.list()] == ["whole"]
    assert trouble(jobs) == []


if __name__ == "__main__":
    played = WORKERS[sys.argv[1]](sys.argv[2])
    if asyncio.iscoroutine(played):
        asyncio.run(played)
