"""Processors: what becomes of a job when its handler returns, raises, takes long, or is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.queue import AsyncQueue, Message, Permanent, Processor, Queue, ear, tasks, threads
from manydesks.store import patience, wake
from manydesks.testing.clock import ManualClock

PATIENCE = 30


class Bench:
    """A processor of either kind in a thread of its own, and a plain queue beside it to look."""

    def __init__(self, kind: str, path: Path, **terms: Any) -> None:
        self.kind = kind
        self.terms = {"durability": "crash", "backoff": 0.001, **terms}
        self.path = path
        self.look = Queue(path, **self.terms)
        self.errors: list[BaseException] = []

    @contextlib.contextmanager
    def running(self, handler: Callable[[Message], Any], **more: Any) -> Iterator[Processor]:
        """Stopped and drained at the end."""
        started = threading.Event()
        made: list[Processor] = []

        def run_threads() -> None:
            with Queue(self.path, **self.terms) as q:
                made.append(Processor(q, handler, **more))
                started.set()
                made[0].run()

        async def run_tasks() -> None:
            async def handle(message: Message) -> None:
                answer = handler(message)
                if asyncio.iscoroutine(answer):
                    await answer

            async with AsyncQueue(self.path, **self.terms) as q:
                made.append(Processor(q, handle, **more))
                started.set()
                running = made[0].run()
                assert running is not None
                await running

        def run() -> None:
            try:
                run_threads() if self.kind == "threads" else asyncio.run(run_tasks())
            except BaseException as error:  # noqa: BLE001 - shown by the test
                self.errors.append(error)
                started.set()

        thread = threading.Thread(target=run)
        thread.start()
        assert started.wait(PATIENCE)
        try:
            yield made[0]
        finally:
            made[0].stop()
            thread.join(PATIENCE)
        assert not thread.is_alive()
        assert self.errors == []

    def close(self) -> None:
        self.look.close()


@pytest.fixture(params=["threads", "tasks"])
def bench(request: pytest.FixtureRequest, path: Path) -> Iterator[Bench]:
    made = Bench(request.param, path)
    yield made
    made.close()


def wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


class Counted:
    """Says when a handler has been called so often."""

    def __init__(self, act: Callable[[Message], Any], times: int) -> None:
        self.seen: list[Message] = []
        self.done = threading.Event()
        self._act = act
        self._times = times
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> Any:
        try:
            return self._act(message)
        finally:
            with self._lock:
                self.seen.append(message)
                if len(self.seen) == self._times:
                    self.done.set()


def test_a_handler_that_returns_completes_its_job(bench: Bench) -> None:
    bench.look.send_batch(range(20))
    handler = Counted(lambda message: None, 20)
    with bench.running(handler, concurrency=3):
        wait(handler.done)
    assert sorted(message.body for message in handler.seen) == list(range(20))
    assert bench.look.stats()["completed"] == 20


def test_a_handler_that_raises_fails_its_job_which_comes_again(bench: Bench) -> None:
    id = bench.look.send("x")

    def act(message: Message) -> None:
        if message.attempt < 3:
            raise ValueError("not yet")

    handler = Counted(act, 3)
    with bench.running(handler):
        wait(handler.done)
    assert [message.attempt for message in handler.seen] == [1, 2, 3]
    job = bench.look.show(id)
    assert (job.status, job.attempts, job.reason) == ("completed", 2, "ValueError: not yet")


def test_after_its_last_attempt_it_is_dead(bench: Bench) -> None:
    bench.look.send("x")

    def act(message: Message) -> None:
        raise KeyError

    handler = Counted(act, 5)
    with bench.running(handler):
        wait(handler.done)
    (dead,) = bench.look.dead_letters()
    assert (dead.attempts, dead.reason) == (5, "KeyError")


def test_permanent_ends_it_at_once(bench: Bench) -> None:
    bench.look.send("x")

    def act(message: Message) -> None:
        raise Permanent("no such address")

    handler = Counted(act, 1)
    with bench.running(handler):
        wait(handler.done)
    (dead,) = bench.look.dead_letters()
    assert (dead.attempts, dead.reason) == (1, "Permanent: no such address")


def test_the_back_off_has_jitter(path: Path) -> None:
    bench = Bench("threads", path, backoff=100)
    bench.look.send_batch(range(20))

    def act(message: Message) -> None:
        raise ValueError("why")

    handler = Counted(act, 20)
    with bench.running(handler):
        wait(handler.done)
    jobs = bench.look.list("delayed")
    waits = [job.not_before - job.changed_at for job in jobs if job.not_before is not None]
    assert len(waits) == 20
    assert all(100_000 <= wait <= 110_000 for wait in waits)
    assert len(set(waits)) > 1
    bench.close()


def test_at_most_so_many_at_a_time(bench: Bench) -> None:
    bench.look.send_batch(range(12))
    lock, now, most, full, go_on = threading.Lock(), [0], [0], threading.Event(), threading.Event()

    def enter() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == 3:
                full.set()

    def leave() -> None:
        with lock:
            now[0] -= 1

    def in_thread(message: Message) -> None:
        enter()
        wait(go_on)
        leave()

    async def in_task(message: Message) -> None:
        enter()
        await asyncio.to_thread(wait, go_on)
        leave()

    handler = Counted(in_thread if bench.kind == "threads" else in_task, 12)
    with bench.running(handler, concurrency=3):
        wait(full)
        go_on.set()
        wait(handler.done)
    assert most == [3]
    assert bench.look.stats()["completed"] == 12


def test_lanes_are_handled_in_order_one_at_a_time(bench: Bench) -> None:
    for n in range(10):
        for lane in ("a", "b", "c"):
            bench.look.send(n, lane=lane)
    busy: set[str | None] = set()
    order: dict[str | None, list[int]] = {"a": [], "b": [], "c": []}
    troubles: list[str] = []

    def act(message: Message) -> None:
        if message.lane in busy:
            troubles.append(f"two of lane {message.lane} at once")
        busy.add(message.lane)
        order[message.lane].append(message.body)
        failing = message.body == 4 and message.attempt == 1
        busy.discard(message.lane)
        if failing:
            raise ValueError("again")

    handler = Counted(act, 33)
    with bench.running(handler, concurrency=6):
        wait(handler.done)
    assert troubles == []
    assert set(map(tuple, order.values())) == {(0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9)}


class BeatingClock(ManualClock):
    """Says when the heartbeat looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.beats = threading.Semaphore(0)

    def monotonic(self) -> int:
        if threading.current_thread().name == "queue-heartbeat":
            self.beats.release()
        return super().monotonic()

    def pass_leases(self, lease: int, times: int) -> None:
        """Nearly a lease passes, then a heartbeat gets the chance, and again."""
        for _ in range(times):
            self.advance(lease * 9 // 10)
            while self.beats.acquire(blocking=False):
                pass
            # the first may have begun before time passed
            for _ in range(2):
                assert self.beats.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_long_handler_keeps_its_lease(path: Path, kind: str) -> None:
    """Also one that blocks the event loop: the heartbeat has a thread of its own."""
    clock = BeatingClock()
    bench = Bench(kind, path, lease=0.15, clock=clock, boot="b")
    id = bench.look.send("x")
    between: list[Any] = []

    def act(message: Message) -> None:
        clock.pass_leases(150, 5)
        between.append(bench.look.receive())

    handler = Counted(act, 1)
    with bench.running(handler):
        wait(handler.done)
    assert between == [None]
    assert [message.attempt for message in handler.seen] == [1]
    job = bench.look.show(id)
    assert (job.status, job.attempts) == ("completed", 0)
    bench.close()


def test_others_leases_are_not_kept_by_a_processor(path: Path) -> None:
    clock = BeatingClock()
    bench = Bench("threads", path, lease=0.15, clock=clock, boot="b")
    bench.look.send("mine", lane="a")
    mine = bench.look.receive()
    assert mine is not None
    with bench.running(lambda message: None):
        clock.pass_leases(150, 2)
        assert bench.look.complete(mine) is False
    bench.close()


def test_a_lease_that_was_lost_is_told_in_the_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The machine stood still for longer than the lease: all heartbeats came too late."""
    clock = ManualClock()
    bench = Bench("threads", path, clock=clock, boot="b")
    id = bench.look.send("x")
    begun, go_on = threading.Event(), threading.Event()

    def act(message: Message) -> None:
        begun.set()
        wait(go_on)

    with bench.running(act) as processor:
        wait(begun)
        clock.advance(30_000)
        processor.stop()
        go_on.set()
    assert actions(caplog) == ["lease_lost"]
    job = bench.look.show(id)
    assert (job.status, job.attempts) == ("ready", 1)
    bench.close()


def test_a_job_that_somebody_else_has_by_now_is_told_in_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.look.send("x")
    again: list[Any] = []

    def act(message: Message) -> None:
        with bench.look.transaction() as tx:
            assert bench.look.fail(message, "taken away", retry_in=0, tx=tx)
            again.append(bench.look.receive(tx=tx))

    handler = Counted(act, 1)
    with bench.running(handler):
        wait(handler.done)
    assert actions(caplog) == ["lease_lost"]
    assert bench.look.complete(again[0])


def test_a_job_that_was_cancelled_meanwhile_is_nothing_to_tell(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    id = bench.look.send("x")
    handler = Counted(lambda message: bench.look.cancel(message.id), 1)
    with bench.running(handler):
        wait(handler.done)
    assert bench.look.show(id).status == "cancelled"
    assert actions(caplog) == []


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "action", "") for record in caplog.records]


def test_stop_lets_the_handlers_end_and_takes_nothing_more(bench: Bench) -> None:
    bench.look.send("first")
    begun, go_on = threading.Event(), threading.Event()

    def in_thread(message: Message) -> None:
        begun.set()
        wait(go_on)

    async def in_task(message: Message) -> None:
        begun.set()
        await asyncio.to_thread(wait, go_on)

    handler = Counted(in_thread if bench.kind == "threads" else in_task, 1)
    with bench.running(handler) as processor:
        wait(begun)
        processor.stop()
        bench.look.send("second")
        go_on.set()
    found = bench.look.stats()
    assert (found["completed"], found["ready"], found["claimed"]) == (1, 1, 0)


def test_a_thread_that_does_not_end_in_time_is_left_behind(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench("threads", path)
    bench.look.send("x")
    begun, go_on = threading.Event(), threading.Event()

    def act(message: Message) -> None:
        begun.set()
        wait(go_on)

    with bench.running(act, drain=0):
        wait(begun)
    assert "drain_cut" in actions(caplog)
    assert bench.look.stats()["claimed"] == 1  # until its lease is over
    go_on.set()
    bench.close()


def test_a_task_that_does_not_end_in_time_is_cancelled_and_its_job_given_back(path: Path) -> None:
    bench = Bench("tasks", path)
    bench.look.send("x")
    begun = threading.Event()

    async def act(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    with bench.running(act, drain=0):
        wait(begun)
    again = bench.look.receive()
    assert again is not None
    assert again.attempt == 1
    bench.close()


async def test_a_processor_that_is_cancelled_gives_everything_back(path: Path) -> None:
    async with AsyncQueue(path, durability="crash") as q:
        await q.send_batch(range(6))
        begun = asyncio.Event()

        async def act(message: Message) -> None:
            if message.body == 0:
                return
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.ensure_future(Processor(q, act, concurrency=4).run())  # type: ignore[arg-type]
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        found = await q.stats()
        assert (found["claimed"], found["completed"] + found["ready"]) == (0, 6)
        assert [m.attempt for m in await q.receive_batch(10)] == [1] * found["ready"]


@pytest.mark.parametrize("after", range(8))
async def test_a_processor_cancelled_at_any_moment_leaves_nothing_claimed(path: Path, after: int) -> None:
    async with AsyncQueue(path, durability="crash") as q:
        await q.send_batch(range(6))

        async def act(message: Message) -> None:
            await asyncio.sleep(0)

        running = asyncio.ensure_future(Processor(q, act, concurrency=2).run())  # type: ignore[arg-type]
        for _ in range(after):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        found = await q.stats()
        assert (found["claimed"], found["dead"]) == (0, 0)
        assert found["ready"] + found["completed"] == 6


async def test_a_handler_that_is_cancelled_by_something_of_its_own_fails(path: Path) -> None:
    """Otherwise its slot would be lost, and the heartbeat would keep its job for ever."""
    async with AsyncQueue(path, durability="crash", backoff=0.001, max_attempts=2) as q:
        await q.send("bad")
        await q.send("good")
        seen: list[Any] = []
        done = asyncio.Event()

        async def act(message: Message) -> None:
            seen.append(message.body)
            if seen.count("bad") == 2 and "good" in seen:
                done.set()
            if message.body == "bad":
                raise asyncio.CancelledError

        processor = Processor(q, act, concurrency=1)
        running = asyncio.ensure_future(processor.run())  # type: ignore[arg-type]
        async with asyncio.timeout(PATIENCE):
            await done.wait()
        processor.stop()
        await running
        (dead,) = await q.dead_letters()
        assert dead.reason == "CancelledError"


def test_a_handler_may_complete_its_job_in_its_own_transaction(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """What it writes and the end of the job are one: both or neither."""
    bench.look.send_batch(range(5))
    with bench.look.transaction() as tx:
        tx.execute("create table results (n integer)")

    def act(message: Message) -> None:
        with bench.look.transaction() as tx:
            tx.execute("insert into results values (?)", (message.body,))
            assert bench.look.complete(message, tx=tx)
            if message.body == 3 and message.attempt == 1:
                raise ValueError("taken back")

    handler = Counted(act, 6)
    with bench.running(handler):
        wait(handler.done)
    with bench.look.transaction() as tx:
        assert sorted(tx.execute("select n from results")) == [(n,) for n in range(5)]
    assert bench.look.stats()["completed"] == 5
    assert "lease_lost" not in actions(caplog)


def test_a_handler_may_give_its_job_back_while_its_neighbours_go_on(bench: Bench) -> None:
    """It shares a fence with them: settled once more after somebody else took it, it is late, not forged."""
    bench.look.send_batch(["back", "slow"])
    given, go_on, again = threading.Event(), threading.Event(), []

    def back(message: Message) -> None:
        with bench.look.transaction() as tx:
            assert bench.look.release(message, tx=tx)
            again.append(bench.look.receive(tx=tx))
        given.set()

    def in_thread(message: Message) -> None:
        if message.body == "back":
            back(message)
        else:
            wait(go_on)

    async def in_task(message: Message) -> None:
        if message.body == "back":
            back(message)
        else:
            await asyncio.to_thread(wait, go_on)

    with bench.running(in_thread if bench.kind == "threads" else in_task, concurrency=2):
        wait(given)
        bench.look.send("more")  # another round while the slow one goes on
        go_on.set()
    assert bench.look.complete(again[0])


class Noticed(logging.Handler):
    """Says when something was logged."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "action", None) == self.action:
            self.came.set()


def test_a_store_that_fails_loses_nothing_that_has_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(threads, "TRY_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "TRY_AGAIN_SECONDS", 0.01)
    id = bench.look.send("x")
    noticed = Noticed("round_failed")
    log = logging.getLogger("manydesks.queue")
    log.addHandler(noticed)
    other = apsw.Connection(str(bench.path))
    begun, go_on = threading.Event(), threading.Event()

    def in_thread(message: Message) -> None:
        begun.set()
        wait(go_on)

    async def in_task(message: Message) -> None:
        begun.set()
        await asyncio.to_thread(wait, go_on)

    handler = Counted(in_thread if bench.kind == "threads" else in_task, 1)
    try:
        with bench.running(handler):
            wait(begun)
            other.execute("begin immediate")
            go_on.set()
            wait(noticed.came)
            other.execute("rollback")
    finally:
        log.removeHandler(noticed)
        other.close()
    assert len(handler.seen) == 1
    job = bench.look.show(id)
    assert (job.status, job.attempts) == ("completed", 0)


def test_a_store_that_fails_for_ever_does_not_keep_a_processor_from_stopping(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(threads, "TRY_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "TRY_AGAIN_SECONDS", 0.01)
    bench.look.send("x")
    other = apsw.Connection(str(bench.path))

    def act(message: Message) -> None:
        other.execute("begin immediate")

    handler = Counted(act, 1)
    try:
        with contextlib.suppress(AssertionError), bench.running(handler, drain=0.1) as processor:
            wait(handler.done)
            processor.stop()
        assert [type(error).__name__ for error in bench.errors] == ["StoreBusy"]
    finally:
        other.execute("rollback")
        other.close()
    assert bench.look.stats()["claimed"] == 1  # until its lease is over


SEND = """
import sys
from manydesks.queue import Queue
with Queue(sys.argv[1], durability="crash") as q:
    q.send("from elsewhere")
"""


def test_a_commit_of_another_process_wakes_it_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll would take an hour."""
    monkeypatch.setattr(wake, "POLL_SECONDS", 3_600)
    monkeypatch.setattr(ear, "POLL_SECONDS", 3_600)
    bench.look.send("first")
    handler = Counted(lambda message: None, 1)
    second = Counted(handler, 2)
    with bench.running(second):
        wait(handler.done)
        subprocess.run([sys.executable, "-c", SEND, str(bench.path)], check=True)
        wait(second.done)
    assert [message.body for message in second.seen] == ["first", "from elsewhere"]


def test_a_delay_wakes_it_in_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 3_600)
    monkeypatch.setattr(ear, "POLL_SECONDS", 3_600)
    bench.look.send("later", delay=0.05)
    handler = Counted(lambda message: None, 1)
    with bench.running(handler):
        wait(handler.done)


def test_resume_wakes_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 3_600)
    monkeypatch.setattr(ear, "POLL_SECONDS", 3_600)
    bench.look.pause()
    bench.look.send("x")
    handler = Counted(lambda message: None, 1)
    with bench.running(handler):
        with bench.look.transaction() as tx:
            bench.look.resume(tx=tx)
        wait(handler.done)


def test_pause_does_not_silence_what_shares_its_transaction(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 3_600)
    monkeypatch.setattr(ear, "POLL_SECONDS", 3_600)
    first = Counted(lambda message: None, 1)
    second = Counted(first, 2)
    bench.look.send("first")
    with Queue(bench.path, "other", durability="crash") as other, bench.running(second):
        wait(first.done)
        with bench.look.transaction() as tx:
            bench.look.send("second", tx=tx)
            other.pause(tx=tx)
        wait(second.done)


SIGNALLED = """
import asyncio, sys, threading, time
from manydesks.queue import AsyncQueue, Processor, Queue

path, kind, stay = sys.argv[1], sys.argv[2], sys.argv[3] == "stay"

def handle(message):
    print("handling", flush=True)
    sys.stdin.readline()
    while stay:
        time.sleep(60)

async def run():
    async def act(message):
        await asyncio.to_thread(handle, message)
    async with AsyncQueue(path, durability="crash") as q:
        await Processor(q, act, concurrency=1).run()

if kind == "tasks":
    asyncio.run(run())
else:
    with Queue(path, durability="crash") as q:
        Processor(q, handle, concurrency=1).run()
print("drained", flush=True)
"""


@contextlib.contextmanager
def signalled(bench: Bench, stay: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SIGNALLED, str(bench.path), bench.kind, stay],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "handling\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_it(bench: Bench, number: int) -> None:
    bench.look.send_batch(["first", "second"])
    with signalled(bench, "go") as process:
        process.send_signal(number)
        said, _ = process.communicate("go on\n", timeout=PATIENCE)
    assert said == "drained\n"
    assert process.returncode == 0
    found = bench.look.stats()
    assert (found["completed"], found["ready"]) == (1, 1)


def test_a_second_signal_ends_it(bench: Bench) -> None:
    bench.look.send("x")
    with signalled(bench, "stay") as process:
        process.send_signal(signal.SIGTERM)
        # it has heard the first when a second one is no longer caught
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
    assert process.returncode == -signal.SIGTERM
    assert bench.look.stats()["claimed"] == 1


def test_signals_are_as_before_when_it_has_ended(path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    during: list[Any] = []
    with Queue(path, durability="crash") as q:
        q.send("x")

        def act(message: Message) -> None:
            during.extend(signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT))
            processor.stop()

        processor = Processor(q, act)
        processor.run()
        assert q.stats()["completed"] == 1
    assert during[0] is during[1]
    assert during[0] not in before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
