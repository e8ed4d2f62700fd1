"""Group commit: who shares a transaction, who fails alone, and what survives a full disk or a locked file."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, StoreBusy, StoreError, StoreFull
from manydesks.store import patience
from manydesks.store import writer as module
from manydesks.store.database import open_reader, open_writer
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.writer import Writer
from manydesks.testing.clock import ManualClock

LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("locked", flush=True)
sys.stdin.readline()
db.execute("rollback")
"""


class Bench:
    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.path = path
        self.commits = 0
        db = open_writer(path, "crash")
        OFFICE.migrate(db, str(path), clock.now())
        self.writer = Writer(db, path, transaction=OfficeTransaction, clock=clock, boot="b", committed=self.committed)
        self.eyes = open_reader(path)

    def committed(self) -> None:
        self.commits += 1

    def texts(self) -> list[str]:
        return [text for (text,) in self.eyes.execute("select text from bodies order by id").fetchall()]

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Hold the writer's thread in an operation, so that what is handed in meanwhile is one batch."""
        entered, go_on = threading.Event(), threading.Event()

        def block(tx: OfficeTransaction) -> None:
            entered.set()
            assert go_on.wait(30)

        blocked = self.writer.submit(block)
        assert entered.wait(30)
        try:
            yield
        finally:
            go_on.set()
            blocked.result(30)

    def close(self) -> None:
        self.eyes.close()
        self.writer.close()


@pytest.fixture
def bench(path: Path, clock: ManualClock) -> Iterator[Bench]:
    made = Bench(path, clock)
    yield made
    made.close()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the write lock until it is told to let go."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def write(text: str) -> Any:
    return lambda tx: tx.body(text)


def write_and_fail(text: str, error: Exception) -> Any:
    def operation(tx: OfficeTransaction) -> None:
        tx.body(text)
        tx.event("agent_added", agent="nobody", after={}, actor="test")
        raise error

    return operation


def refuse(tx: OfficeTransaction) -> None:
    tx.all("select 1 from bodies")
    raise BadInput("no")


def test_what_is_handed_in_together_is_committed_together(bench: Bench) -> None:
    with bench.gathering():
        before = bench.eyes.execute("pragma data_version").fetchall()
        futures = [bench.writer.submit(write(str(n))) for n in range(100)]
        assert bench.texts() == []
        assert bench.eyes.execute("pragma data_version").fetchall() == before
    for future in futures:
        future.result(30)
    assert bench.commits == 1
    assert bench.texts() == [str(n) for n in range(100)]


async def test_coroutines_share_transactions(bench: Bench) -> None:
    with bench.gathering():
        calls = [asyncio.ensure_future(bench.writer.call(write(str(n)))) for n in range(50)]
        await asyncio.sleep(0)
    ids = await asyncio.gather(*calls)
    assert ids == sorted(ids)
    assert bench.commits == 1


def test_a_batch_has_a_limit(bench: Bench) -> None:
    with bench.gathering():
        futures = [bench.writer.submit(write(str(n))) for n in range(module.BATCH + 1)]
    for future in futures:
        future.result(30)
    assert bench.commits == 2
    assert bench.texts() == [str(n) for n in range(module.BATCH + 1)]


def test_a_failing_operation_fails_alone(bench: Bench) -> None:
    with bench.gathering():
        before = bench.writer.submit(write("before"))
        guilty = bench.writer.submit(write_and_fail("guilty", ZeroDivisionError("boom")))
        refused = bench.writer.submit(write_and_fail("refused", BadInput("after a write")))
        after = bench.writer.submit(write("after"))
    before.result(30)
    after.result(30)
    with pytest.raises(ZeroDivisionError):
        guilty.result(30)
    with pytest.raises(BadInput):
        refused.result(30)
    assert bench.texts() == ["before", "after"]
    assert bench.eyes.execute("select count(*) from events").fetchall() == [(0,)]


def test_a_refusal_before_the_first_write_costs_the_others_nothing(bench: Bench) -> None:
    ran = []

    def counted(tx: OfficeTransaction) -> None:
        ran.append(tx)
        tx.body("counted")

    with bench.gathering():
        one = bench.writer.submit(counted)
        refused = bench.writer.submit(refuse)
        two = bench.writer.submit(counted)
    one.result(30)
    two.result(30)
    with pytest.raises(BadInput):
        refused.result(30)
    assert len(ran) == 2  # nothing was rolled back and run again
    assert bench.commits == 1


def test_a_refusal_that_only_gathered_something_leaves_none_of_it(bench: Bench) -> None:
    def gathered(tx: OfficeTransaction) -> None:
        tx.event("agent_added", agent="nobody", after={}, actor="test")
        raise BadInput("no")

    with bench.gathering():
        refused = bench.writer.submit(gathered)
        other = bench.writer.submit(write("other"))
    other.result(30)
    with pytest.raises(BadInput):
        refused.result(30)
    assert bench.texts() == ["other"]
    assert bench.eyes.execute("select seq from ledger_head").fetchall() == [(0,)]


def test_a_caller_that_gave_up_in_time_leaves_no_trace(bench: Bench) -> None:
    with bench.gathering():
        given_up = bench.writer.submit(write("given up"))
        kept = bench.writer.submit(write("kept"))
        assert given_up.cancel()
    kept.result(30)
    assert bench.texts() == ["kept"]


def test_committed_is_called_only_when_something_changed(bench: Bench) -> None:
    bench.writer.run(lambda tx: tx.all("select 1"))
    with pytest.raises(BadInput):
        bench.writer.run(refuse)
    bench.writer.run(lambda tx: tx.run("update bodies set text = '' where id = 99"))
    assert bench.commits == 0
    bench.writer.run(lambda tx: tx.event("agent_added", agent="a", after={}, actor="test"))
    assert bench.commits == 1


def test_trouble_in_committed_does_not_run_an_operation_twice(bench: Bench) -> None:
    def broken() -> None:
        raise OSError("the bell is broken")

    bench.writer._committed = broken
    assert bench.writer.run(write("once")) == 1
    with bench.gathering():
        futures = [bench.writer.submit(write(text)) for text in ("one", "two")]
    assert [future.result(30) for future in futures] == [2, 3]
    assert bench.texts() == ["once", "one", "two"]


def test_synchronous_and_queued_callers_do_not_meet_in_a_transaction(bench: Bench) -> None:
    threads = [threading.Thread(target=bench.writer.run, args=(write(f"run {n}"),)) for n in range(8)]
    with bench.gathering():
        for thread in threads:
            thread.start()
        futures = [bench.writer.submit(write(f"call {n}")) for n in range(8)]
    for thread in threads:
        thread.join(30)
    for future in futures:
        future.result(30)
    assert len(bench.texts()) == 16
    assert [text for text in bench.texts() if text.startswith("call")] == [f"call {n}" for n in range(8)]


def test_closing_finishes_what_was_handed_in(path: Path, clock: ManualClock) -> None:
    bench = Bench(path, clock)
    with bench.gathering():
        futures = [bench.writer.submit(write(str(n))) for n in range(600)]
        closing = threading.Thread(target=bench.writer.close)
        closing.start()
    closing.join(30)
    assert all(future.done() for future in futures)
    assert len(bench.texts()) == 600
    bench.eyes.close()


def test_whatever_is_handed_in_while_closing_gets_an_answer(
    path: Path, clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    """Callers in other threads race with `close`: each is refused or done, none waits for ever."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change places as often as they can
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    for _ in range(100):
        bench = Bench(path, clock)
        bench.writer.submit(write("first")).result(30)
        futures: list[Any] = []
        ready = threading.Barrier(5)

        def caller(bench: Bench = bench, ready: threading.Barrier = ready, futures: list[Any] = futures) -> None:
            ready.wait(30)
            with contextlib.suppress(StoreError):
                while True:
                    futures.append(bench.writer.submit(write("late")))

        threads = [threading.Thread(target=caller) for _ in range(4)]
        for thread in threads:
            thread.start()
        ready.wait(30)
        bench.writer.close()
        for thread in threads:
            thread.join(30)
        for future in futures:
            future.result(5)
        bench.eyes.close()


def test_a_closed_store_says_so(path: Path, clock: ManualClock) -> None:
    bench = Bench(path, clock)
    bench.close()
    with pytest.raises(StoreError, match="closed"):
        bench.writer.run(write("x"))
    with pytest.raises(StoreError, match="closed"):
        bench.writer.submit(write("x"))


def test_another_process_that_holds_the_lock_for_a_while_is_waited_for(bench: Bench) -> None:
    with locked(bench.path) as other:
        future = bench.writer.submit(write("patient"))
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
        future.result(30)
    assert bench.texts() == ["patient"]


def test_a_lock_that_is_never_let_go_fails_the_whole_batch_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each of its operations after a wait of its own: 512 of them would take three quarters of an hour."""
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.5)
    with locked(bench.path):
        # the first one keeps the thread waiting for the lock; the others form one batch behind it
        futures = [bench.writer.submit(write(str(n))) for n in range(20)]
        began = time.monotonic()
        for future in futures:
            with pytest.raises(StoreBusy):
                future.result(30)
        assert time.monotonic() - began < 5
    assert bench.texts() == []
    bench.writer.run(write("alive"))
    assert bench.texts() == ["alive"]


@pytest.fixture
def small_disk(tmp_path: Path, mount: Callable[..., None]) -> Path:
    mount("size=2m", at=tmp_path / "small")
    return tmp_path / "small"


def test_a_full_disk_fails_the_guilty_and_the_writer_lives_on(small_disk: Path, clock: ManualClock) -> None:
    bench = Bench(small_disk / "office.db", clock)
    ballast = small_disk / "ballast"
    bench.writer.run(write("before"))
    with bench.gathering():
        small = bench.writer.submit(write("small"))
        large = bench.writer.submit(write("x" * 4_000_000))
        tiny = bench.writer.submit(write("tiny"))
    small.result(30)
    tiny.result(30)
    with pytest.raises(StoreFull):
        large.result(30)
    assert bench.texts() == ["before", "small", "tiny"]

    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    with pytest.raises(StoreFull):
        bench.writer.run(lambda tx: [tx.body("y" * 10_000) for _ in range(200)])
    stored = bench.texts()
    ballast.unlink()
    bench.writer.run(write("after"))
    assert bench.texts() == [*stored, "after"]
    assert bench.eyes.execute("pragma integrity_check").fetchall() == [("ok",)]
    bench.close()


async def test_a_claim_that_finds_nothing_writes_nothing(office: Any) -> None:
    await office.sent()
    await office.begin()
    marks = office.rows("select * from marks")
    db = open_reader(office.path)
    try:
        version = db.execute("pragma data_version").fetchall()
        assert await office.claim() == []
        assert db.execute("pragma data_version").fetchall() == version
    finally:
        db.close()
    assert office.rows("select * from marks") == marks
