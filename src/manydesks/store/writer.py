"""The writer: the only write connection, and group commit.

Callers hand in operations; a batch forms while the commit before it waits for the disk, and up to 512 operations share
one transaction. If one of them fails, the batch is rolled back and replayed one by one, so only the guilty one fails.
Operations may therefore run twice: they touch nothing but their transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

import apsw

from manydesks.domain.clock import Clock
from manydesks.domain.errors import BadInput, ManyDesksError, StoreBusy, StoreError
from manydesks.store.boot import steady_offset
from manydesks.store.database import named_errors
from manydesks.store.patience import patiently
from manydesks.store.transaction import Transaction

T = TypeVar("T")
Tx = TypeVar("Tx", bound=Transaction)

BATCH = 512

log = logging.getLogger(__name__)

#: who waits, on which loop (None: a thread), for what, and who is told the result if nobody waits any more
_Entry = tuple[
    "asyncio.Future[Any] | Future[Any]",
    asyncio.AbstractEventLoop | None,
    Callable[[Any], Any],
    Callable[[Any], None] | None,
]
#: what became of one operation
_Outcome = tuple[Any, BaseException | None]


class _Caller(NamedTuple):
    thread: int
    task: asyncio.Task[Any] | None

    @classmethod
    def now(cls) -> _Caller:
        try:
            return cls(threading.get_ident(), asyncio.current_task())
        except RuntimeError:
            return cls(threading.get_ident(), None)


class Writer(Generic[Tx]):
    """Runs operations, each exactly once in the store, in the order they were handed in."""

    def __init__(
        self,
        db: apsw.Connection,
        path: Path,
        *,
        transaction: type[Tx],
        clock: Clock,
        boot: str,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        # `patiently` instead
        db.set_busy_timeout(0)
        with named_errors(path):
            self._offset = steady_offset(db, clock, boot)
        self._db = db
        self._cursor = db.cursor()
        self._pid = os.getpid()
        self._path = path
        self._transaction = transaction
        #: sequences as our last commit left them: true as long as the file has not changed since
        self._known: dict[str, int] = {}
        self._version = 0
        self._clock = clock
        self._boot = boot
        #: called after every commit that changed something, from whichever thread made it
        self._committed = committed
        #: None: close
        self._waiting: SimpleQueue[_Entry | None] = SimpleQueue()
        #: whoever holds it may use the connection
        self._turn = threading.Lock()
        #: the thread and the task whose own transaction is open
        self._holder: _Caller | None = None
        #: that transaction
        self._held: Tx | None = None
        #: coroutines wait for their turn in the one and commit in the other; the loop's own threads may all be waiting
        #: for the end of a transaction which then could not end
        self._entrance = ThreadPoolExecutor(1, "store-entrance")
        self._exit = ThreadPoolExecutor(1, "store-exit")
        #: whoever holds it may start the thread, or close: nothing is handed in to a writer that has left
        self._door = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None

    def run(self, operation: Callable[[Tx], T]) -> T:
        """For a synchronous caller: in its own thread, without a hop."""
        self._check_process()
        if self._holder is not None:
            self._refuse_holder()
        with self._turn:
            self._check_open()
            # as `_transact` does it, without its context managers: these cost as much as a statement each
            try:
                tx = self._begin()
                try:
                    result = operation(tx)
                    self._commit(tx)
                except BaseException:
                    self._rollback()
                    raise
            except apsw.Error:
                with named_errors(self._path):
                    raise
        self._tell(tx)
        return result

    def call(self, operation: Callable[[Tx], T], unwanted: Callable[[T], None] | None = None) -> asyncio.Future[T]:
        """For coroutines: handed to the writer thread, committed together with what others hand in.

        `unwanted` is given the result if the caller was cancelled when it was too late to leave it.
        """
        if self._holder is not None:
            self._refuse_holder(in_task=True)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._hand_in((future, loop, operation, unwanted))
        return future

    def submit(self, operation: Callable[[Tx], T]) -> Future[T]:
        """For threads that do something else meanwhile."""
        future: Future[T] = Future()
        self._hand_in((future, None, operation, None))
        return future

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction that the caller fills: nobody else writes meanwhile; an exception takes all of it back."""
        self._check_process()
        self._refuse_holder()
        with self._turn:
            self._check_open()
            with named_errors(self._path):
                tx = self._begin()
                self._holder, self._held = _Caller.now(), tx
                with self._undone_on_failure():
                    try:
                        yield tx
                    finally:
                        self._holder = self._held = None
                        tx.is_over = True
                    self._check_whole()
                    self._commit(tx)
        self._tell(tx)

    @contextlib.asynccontextmanager
    async def async_transaction(self) -> AsyncIterator[Tx]:
        """The same for a coroutine: its loop goes on while it waits for its turn, for the file and for the disk."""
        self._check_process()
        self._refuse_holder(in_task=True)
        loop = asyncio.get_running_loop()
        with self._door:
            self._check_open()
            entering = loop.run_in_executor(self._entrance, self._enter, _Caller.now())
        tx = await _to_the_end(entering, self._leave)
        try:
            with named_errors(self._path), self._undone_on_failure():
                try:
                    yield tx
                finally:
                    self._held = None
                    tx.is_over = True
                self._check_whole()
                # from here on it cannot be called off: what is committed stays so, and is told
                await _to_the_end(loop.run_in_executor(self._exit, self._commit, tx), lambda: self._tell(tx))
        finally:
            self._holder = None
            self._turn.release()
        self._tell(tx)

    def _enter(self, caller: _Caller) -> Tx:
        """Wait for the turn, and begin."""
        self._turn.acquire()
        try:
            with named_errors(self._path):
                tx = self._begin()
        except BaseException:
            self._turn.release()
            raise
        self._holder, self._held = caller, tx
        return tx

    def _leave(self) -> None:
        """Whoever waited has gone."""
        self._holder = self._held = None
        self._rollback()
        self._turn.release()

    def outside(self, work: Callable[[apsw.Connection], T]) -> T:
        """What SQLite does outside of transactions only, such as moving its log; nobody writes meanwhile. Blocks."""
        self._check_process()
        self._refuse_holder()
        with self._turn:
            self._check_open()
            with named_errors(self._path):
                return work(self._db)

    def owns(self, tx: Transaction) -> bool:
        """Whether it is the transaction that is open here by `transaction` or `async_transaction`."""
        return self._held is tx and os.getpid() == self._pid

    def refuse_inside(self) -> None:
        """Whoever calls this has no transaction open here."""
        if self._holder is not None:
            self._refuse_holder()

    def close(self) -> None:
        """Finish what was handed in, then close the connection. In a process that was forked off: nothing, for what is
        open there belongs to the other."""
        if os.getpid() != self._pid:
            return
        self.refuse_inside()
        with self._door:
            self._closed = True
            if self._thread is not None:
                self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()
        self._entrance.shutdown()
        with self._turn:
            self._exit.shutdown()
            self._db.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(f"The store {self._path} was opened before a fork: open it again in the new process.")

    def _check_whole(self) -> None:
        """Some errors take the whole transaction back at once, and a caller may have gone on after one."""
        self._check_process()
        if not self._db.in_transaction:
            raise StoreError("An error inside the transaction has taken it back: nothing was changed.")

    def _refuse_holder(self, *, in_task: bool = False) -> None:
        """Whoever has a transaction open would wait for himself, and so would everybody in the thread of a loop that
        has one open."""
        holder = self._holder
        if holder is None:
            return
        me = _Caller.now()
        if holder.task is me.task if in_task else holder.thread == me.thread:
            raise BadInput("A transaction is open here: give it to this call as `tx`, or end it first.")

    def _hand_in(self, entry: _Entry) -> None:
        self._check_process()
        with self._door:
            self._check_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
                self._thread.start()
            self._waiting.put(entry)

    def _work(self) -> None:
        """A batch is whatever has come while the one before it was committed; no timer makes anybody wait for it."""
        while (entry := self._waiting.get()) is not None:
            batch, last = [entry], False
            while len(batch) < BATCH:
                try:
                    more = self._waiting.get_nowait()
                except Empty:
                    break
                if more is None:
                    last = True
                    break
                batch.append(more)
            batch = [entry for entry in batch if _wanted(entry)]
            if batch:
                with self._turn:
                    outcomes = self._batch([operation for _, _, operation, _ in batch])
                _deliver(batch, outcomes)
            if last:
                return

    def _batch(self, operations: list[Callable[[Tx], Any]]) -> list[_Outcome]:
        """One transaction for all of them, or, if that fails, one for each."""
        try:
            return self._transact(operations)
        except StoreBusy as error:
            # nobody's operation: each by itself would only wait as long again
            return [(None, error)] * len(operations)
        except BaseException as error:  # noqa: BLE001 - handed to the caller whose operation it was
            if len(operations) == 1:
                return [(None, error)]
        return [outcome for operation in operations for outcome in self._batch([operation])]

    def _transact(self, operations: list[Callable[[Tx], Any]]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        with named_errors(self._path):
            tx = self._begin()
            with self._undone_on_failure():
                for operation in operations:
                    before = tx.moves
                    try:
                        outcomes.append((operation(tx), None))
                    except ManyDesksError as refusal:
                        # a refusal before the first write costs the others of the batch nothing
                        if len(operations) == 1 or tx.moves != before:
                            raise
                        outcomes.append((None, refusal))
                self._commit(tx)
        self._tell(tx)
        return outcomes

    def _begin(self) -> Tx:
        db, clock, cursor = self._db, self._clock, self._cursor
        try:
            cursor.execute("begin immediate")
        except apsw.BusyError:
            patiently(lambda: cursor.execute("begin immediate"))
        if db.data_version() != self._version:
            # somebody else has written, or we began and did not end
            self._known.clear()
        return self._transaction(
            db,
            now=clock.now(),
            mono=clock.monotonic(),
            steady=self._offset + clock.since_boot(),
            boot=self._boot,
            known=self._known,
        )

    def _commit(self, tx: Tx) -> None:
        left = tx.finish()
        self._cursor.execute("commit")
        self._known.update(left)
        self._version = self._db.data_version()

    def _rollback(self) -> None:
        # some errors have rolled back already; and a forked process must not touch what is the other's
        if os.getpid() == self._pid and self._db.in_transaction:
            self._db.execute("rollback")

    @contextlib.contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._rollback()
            raise

    def _tell(self, tx: Tx) -> None:
        """What is committed stays so: trouble here must not look like a failed batch, which would be run again."""
        if not tx.is_news:
            return
        try:
            self._committed()
        except Exception:
            log.exception("A commit could not be announced", extra={"action": "announce_failed"})


async def _to_the_end(work: asyncio.Future[T], undo: Callable[[], object]) -> T:
    """What a thread has begun goes on when its caller is cancelled: wait for it, and undo what it got."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            # whoever cancels twice is no exception
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        if work.exception() is None:
            undo()
        raise


def _wanted(entry: _Entry) -> bool:
    """Whoever gave up before the batch began leaves no trace."""
    future = entry[0]
    return future.set_running_or_notify_cancel() if isinstance(future, Future) else not future.cancelled()


def _deliver(batch: list[_Entry], outcomes: list[_Outcome]) -> None:
    """Everybody learns what became of their operation; each loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Entry, _Outcome]]] = {}
    for entry, outcome in zip(batch, outcomes, strict=True):
        loop = entry[1]
        if loop is None:
            _resolve([(entry, outcome)])
        else:
            by_loop.setdefault(loop, []).append((entry, outcome))
    for loop, resolved in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, resolved)
        except RuntimeError:
            log.info("A caller's loop was closed before its answer", extra={"action": "caller_left"})


def _resolve(resolved: list[tuple[_Entry, _Outcome]]) -> None:
    for (future, _, _, unwanted), (result, error) in resolved:
        if future.done():
            # its caller was cancelled; what was done stays done
            if unwanted is not None and error is None:
                unwanted(result)
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
