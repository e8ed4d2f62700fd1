"""Transactions that a caller fills: one holder at a time, all or nothing, and nobody waits for himself."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.domain.errors import BadInput, StoreBusy, StoreError
from manydesks.store import patience
from manydesks.store.database import open_reader, open_writer
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.writer import Writer
from manydesks.testing.clock import ManualClock


class Bench:
    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.path = path
        self.commits = 0
        self.db = open_writer(path, "crash")
        OFFICE.migrate(self.db, str(path), clock.now())
        self.writer = Writer(
            self.db, path, transaction=OfficeTransaction, clock=clock, boot="b", committed=self.committed
        )
        self.eyes = open_reader(path)

    def committed(self) -> None:
        self.commits += 1

    def texts(self) -> list[str]:
        return [text for (text,) in self.eyes.execute("select text from bodies order by id").fetchall()]

    def is_free(self) -> bool:
        """Whether the next one gets its turn."""
        done = self.writer.submit(lambda tx: tx.all("select 1"))
        return bool(done.result(30))

    def close(self) -> None:
        self.eyes.close()
        self.writer.close()


@pytest.fixture
def bench(path: Path, clock: ManualClock) -> Iterator[Bench]:
    made = Bench(path, clock)
    yield made
    made.close()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[Callable[[], None]]:
    """Another connection writes; what is given lets go."""
    other = apsw.Connection(str(path))
    other.execute("begin immediate")

    def let_go() -> None:
        if other.in_transaction:
            other.execute("rollback")

    try:
        yield let_go
    finally:
        let_go()
        other.close()


# what one gathers


def test_sequences_go_on_and_are_never_reset(bench: Bench) -> None:
    def take(tx: OfficeTransaction) -> list[int]:
        return [tx.next("position"), tx.next("position"), tx.last("position"), tx.last("fence")]

    assert bench.writer.run(take) == [1, 2, 2, 0]
    assert bench.writer.run(take) == [3, 4, 4, 0]
    with pytest.raises(BadInput):
        bench.writer.run(lambda tx: (take(tx), _refuse()))
    assert bench.writer.run(take) == [5, 6, 6, 0]


def _refuse() -> None:
    raise BadInput("No.")


def test_counts_are_added_up_and_seen_at_once(bench: Bench) -> None:
    def first(tx: OfficeTransaction) -> dict[int, int]:
        tx.count("messages", "ada", None, 0, 5)
        tx.count("messages", "ada", 0, 1, 2)
        tx.count("messages", "bob", None, 0)
        return tx.counts("messages", "ada")

    assert bench.writer.run(first) == {0: 3, 1: 2}
    assert bench.eyes.execute("select agent, state, n from counters where scope = 'messages'").fetchall() == [
        ("ada", 0, 3),
        ("ada", 1, 2),
        ("bob", 0, 1),
    ]

    def second(tx: OfficeTransaction) -> dict[int, int]:
        tx.count("messages", "ada", 1, None, 2)
        return tx.counts("messages", "ada")

    assert bench.writer.run(second) == {0: 3, 1: 0}


def test_events_are_numbered_without_a_gap_whatever_fails_between(bench: Bench) -> None:
    def tell(tx: OfficeTransaction) -> None:
        for _ in range(3):
            tx.event("agent_added", agent="a", after={}, actor="test")

    bench.writer.run(tell)
    with pytest.raises(BadInput):
        bench.writer.run(lambda tx: (tell(tx), _refuse()))
    with pytest.raises(ZeroDivisionError), bench.writer.transaction() as tx:  # noqa: PT012
        tell(tx)
        _ = 1 / 0
    with bench.writer.transaction() as tx:
        tell(tx)
    assert bench.eyes.execute("select seq from events").fetchall() == [(n,) for n in range(1, 7)]
    assert bench.eyes.execute("select seq from ledger_head").fetchall() == [(6,)]


# `transaction`


def test_all_of_it_at_the_end_of_its_block(bench: Bench) -> None:
    with bench.writer.transaction() as tx:
        tx.body("one")
        tx.body("two")
        assert bench.texts() == []
        assert bench.writer.owns(tx)
    assert bench.texts() == ["one", "two"]
    assert bench.commits == 1
    assert not bench.writer.owns(tx)
    assert tx.is_over


def test_none_of_it_after_an_exception(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError), bench.writer.transaction() as tx:  # noqa: PT012
        tx.body("one")
        _ = 1 / 0
    assert bench.texts() == []
    assert bench.commits == 0
    assert tx.is_over
    assert bench.is_free()


def test_others_wait_for_its_end(bench: Bench) -> None:
    began = threading.Event()

    def other() -> None:
        began.set()
        bench.writer.run(lambda tx: tx.body("thread"))

    thread = threading.Thread(target=other)
    with bench.writer.transaction() as tx:
        thread.start()
        assert began.wait(30)
        later = bench.writer.submit(lambda tx: tx.body("queued"))
        tx.body("mine")
    thread.join(30)
    later.result(30)
    assert bench.texts()[0] == "mine"
    assert sorted(bench.texts()) == ["mine", "queued", "thread"]


def test_the_holder_does_not_wait_for_himself(bench: Bench) -> None:
    with bench.writer.transaction() as tx:
        with pytest.raises(BadInput, match="`tx`"):
            bench.writer.run(lambda tx: tx.body("x"))
        with pytest.raises(BadInput, match="`tx`"), bench.writer.transaction():
            pass
        with pytest.raises(BadInput, match="`tx`"):
            bench.writer.close()
        tx.body("kept")
    assert bench.texts() == ["kept"]
    assert bench.is_free()


def test_a_commit_that_fails_takes_all_of_it_back(bench: Bench) -> None:
    bench.db.set_commit_hook(lambda: True)  # SQLite: turn it into a rollback
    with pytest.raises(apsw.ConstraintError), bench.writer.transaction() as tx:
        tx.body("x")
    bench.db.set_commit_hook(None)
    assert bench.texts() == []
    assert bench.commits == 0
    assert bench.is_free()


def test_a_file_that_stays_locked_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.02)
    with locked(bench.path), pytest.raises(StoreBusy), bench.writer.transaction():
        pytest.fail("it has begun")
    assert bench.is_free()
    with bench.writer.transaction() as tx:
        tx.body("now")
    assert bench.texts() == ["now"]


def test_closed_is_closed(path: Path, clock: ManualClock) -> None:
    bench = Bench(path, clock)
    bench.close()
    with pytest.raises(StoreError, match="closed"), bench.writer.transaction():
        pass


# `async_transaction`


async def test_a_coroutines_transaction(bench: Bench) -> None:
    async with bench.writer.async_transaction() as tx:
        tx.body("one")
        await asyncio.sleep(0)
        tx.body("two")
        assert bench.texts() == []
        assert bench.writer.owns(tx)
    assert bench.texts() == ["one", "two"]
    assert bench.commits == 1
    assert not bench.writer.owns(tx)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with bench.writer.async_transaction() as tx:
            tx.body("three")
            _ = 1 / 0
    assert bench.texts() == ["one", "two"]
    assert bench.is_free()


async def test_the_loop_goes_on_while_a_coroutine_waits_for_its_turn(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(tx: OfficeTransaction) -> None:
        entered.set()
        assert go_on.wait(30)

    blocked = bench.writer.submit(block)
    assert entered.wait(30)

    async def wait() -> None:
        async with bench.writer.async_transaction() as tx:
            tx.body("patient")

    waiting = asyncio.create_task(wait())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    await waiting
    blocked.result(30)
    assert bench.texts() == ["patient"]


async def test_other_tasks_write_after_it_and_the_same_one_is_refused(bench: Bench) -> None:
    async def other() -> None:
        await bench.writer.call(lambda tx: tx.body("other"))

    async with bench.writer.async_transaction() as tx:
        with pytest.raises(BadInput, match="`tx`"):
            await bench.writer.call(lambda tx: tx.body("x"))
        with pytest.raises(BadInput, match="`tx`"):
            async with bench.writer.async_transaction():
                pass
        waiting = asyncio.create_task(other())
        await asyncio.sleep(0)
        tx.body("mine")
    await waiting
    assert bench.texts() == ["mine", "other"]


async def test_whoever_would_block_the_loop_of_a_holder_is_refused(bench: Bench) -> None:
    async with bench.writer.async_transaction() as tx:
        with pytest.raises(BadInput, match="`tx`"):
            bench.writer.run(lambda tx: tx.body("x"))
        with pytest.raises(BadInput, match="`tx`"), bench.writer.transaction():
            pass
        with pytest.raises(BadInput, match="`tx`"):
            bench.writer.close()
        tx.body("async")
    with bench.writer.transaction() as tx:
        with pytest.raises(BadInput, match="`tx`"):
            await bench.writer.call(lambda tx: tx.body("x"))
        tx.body("sync")
    assert bench.texts() == ["async", "sync"]


async def test_more_of_them_than_the_loop_has_threads(bench: Bench) -> None:
    async def one(n: int) -> None:
        async with bench.writer.async_transaction() as tx:
            await asyncio.sleep(0)
            tx.body(str(n))

    def in_a_thread(n: int) -> None:
        bench.writer.run(lambda tx: tx.body(str(n)))

    async with asyncio.timeout(60):
        await asyncio.gather(*(one(n) for n in range(50)), *(asyncio.to_thread(in_a_thread, n) for n in range(50, 100)))
    assert sorted(map(int, bench.texts())) == list(range(100))


async def cancelled(bench: Bench, at: asyncio.Task[Any], times: int, release: Callable[[], None]) -> None:
    """Cancel, more than once if asked; what was begun is over only when it has been undone."""
    for _ in range(times):
        at.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
    release()
    with pytest.raises(asyncio.CancelledError):
        await at


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_while_it_waits_for_its_turn(bench: Bench, times: int) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(tx: OfficeTransaction) -> None:
        entered.set()
        assert go_on.wait(30)

    blocked = bench.writer.submit(block)
    assert entered.wait(30)

    async def wait() -> None:
        async with bench.writer.async_transaction() as tx:
            tx.body("never")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await cancelled(bench, waiting, times, go_on.set)
    blocked.result(30)
    assert bench.is_free()
    assert not bench.db.in_transaction
    assert bench.texts() == []
    async with bench.writer.async_transaction() as tx:
        tx.body("next")
    assert bench.texts() == ["next"]


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_while_it_waits_for_the_file(bench: Bench, times: int) -> None:
    async def wait() -> None:
        async with bench.writer.async_transaction() as tx:
            tx.body("never")

    with locked(bench.path) as let_go:
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await cancelled(bench, waiting, times, let_go)
    assert bench.is_free()
    assert not bench.db.in_transaction
    assert bench.texts() == []


async def test_cancelled_while_it_waits_for_a_file_that_stays_locked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.02)

    async def wait() -> None:
        async with bench.writer.async_transaction() as tx:
            tx.body("never")

    with locked(bench.path):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await cancelled(bench, waiting, 1, lambda: None)
        with pytest.raises(StoreBusy):
            await asyncio.create_task(wait())
    assert bench.is_free()


async def test_cancelled_in_its_block(bench: Bench) -> None:
    inside = asyncio.Event()

    async def fill() -> None:
        async with bench.writer.async_transaction() as tx:
            tx.body("taken back")
            inside.set()
            await asyncio.Event().wait()

    filling = asyncio.create_task(fill())
    await inside.wait()
    await cancelled(bench, filling, 1, lambda: None)
    assert bench.is_free()
    assert bench.texts() == []
    assert bench.commits == 0


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_while_it_commits(bench: Bench, times: int) -> None:
    """It cannot be called off any more: what is committed stays so, and is told."""
    committing, go_on = threading.Event(), threading.Event()

    def hook() -> bool:
        committing.set()
        assert go_on.wait(30)
        return False

    bench.db.set_commit_hook(hook)

    async def fill() -> None:
        async with bench.writer.async_transaction() as tx:
            tx.body("committed")

    filling = asyncio.create_task(fill())
    assert await asyncio.to_thread(committing.wait, 30)
    await cancelled(bench, filling, times, go_on.set)
    bench.db.set_commit_hook(None)
    assert bench.is_free()
    assert bench.texts() == ["committed"]
    assert bench.commits == 1


async def test_a_call_is_a_future_that_can_be_given_up(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(tx: OfficeTransaction) -> None:
        entered.set()
        assert go_on.wait(30)

    blocked = bench.writer.submit(block)
    assert entered.wait(30)
    kept, given_up = bench.writer.call(lambda tx: tx.body("kept")), bench.writer.call(lambda tx: tx.body("given up"))
    assert isinstance(kept, asyncio.Future)
    given_up.cancel()
    go_on.set()
    assert await kept == 1
    blocked.result(30)
    assert bench.texts() == ["kept"]


async def test_a_call_that_fails_says_so_in_its_future(bench: Bench) -> None:
    refused = bench.writer.call(lambda tx: _refuse())
    fine = bench.writer.call(lambda tx: tx.body("fine"))
    with pytest.raises(BadInput):
        await refused
    assert await fine == 1


async def test_closing_lets_an_open_transaction_end(path: Path, clock: ManualClock) -> None:
    bench = Bench(path, clock)
    async with bench.writer.async_transaction() as tx:
        closing = asyncio.get_running_loop().run_in_executor(None, bench.writer.close)
        while not bench.writer._closed:  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0)
        with pytest.raises(StoreError, match="closed"):
            async with asyncio.timeout(30):
                await asyncio.create_task(_enter(bench))
        tx.body("last")
    await closing
    assert bench.texts() == ["last"]
    bench.eyes.close()


async def _enter(bench: Bench) -> None:
    async with bench.writer.async_transaction() as tx:
        tx.body("never")


# forks

FORK = """
import asyncio, os, sys
from pathlib import Path
from manydesks.domain.clock import SystemClock
from manydesks.store.database import open_writer
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.writer import Writer

path = Path(sys.argv[1])
db = open_writer(path, "crash")
OFFICE.migrate(db, str(path), 1)
writer = Writer(db, path, transaction=OfficeTransaction, clock=SystemClock(), boot="b")
writer.submit(lambda tx: tx.body("before")).result()

async def call():
    await writer.call(lambda tx: tx.body("child"))

async def fill():
    async with writer.async_transaction() as tx:
        tx.body("child")

def hold():
    with writer.transaction() as tx:
        tx.body("child")

child = os.fork()
if child == 0:
    ways = [
        lambda: writer.run(lambda tx: tx.body("child")), lambda: writer.submit(lambda tx: tx.body("child")),
        hold, lambda: asyncio.run(call()), lambda: asyncio.run(fill()),
    ]
    said = []
    for way in ways:
        try:
            way()
            said.append("done")
        except Exception as error:
            said.append(type(error).__name__ + (" fork" if "fork" in str(error) else ""))
    writer.close()
    print(said, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
writer.run(lambda tx: tx.body("after"))
print(db.execute("select text from bodies").fetchall())
writer.close()
"""


def test_after_a_fork_the_child_is_refused_and_the_parent_goes_on(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [str(["StoreError fork"] * 5), "[('before',), ('after',)]"]
