"""The writer: the only write connection, and group commit.

Callers hand in operations; a batch forms while the commit before it waits for the disk, and up to 512 operations share
one transaction. If one of them fails, the batch is rolled back and replayed one by one, so only the guilty one fails.
Operations may therefore run twice: they touch nothing but their transaction.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import apsw

from manydesks.domain.clock import Clock
from manydesks.domain.errors import ManyDesksError, StoreBusy, StoreError
from manydesks.store.database import named_errors, patiently
from manydesks.store.transaction import Transaction

T = TypeVar("T")
Tx = TypeVar("Tx", bound=Transaction)

BATCH = 512

log = logging.getLogger(__name__)

#: who waits, on which loop (None: a thread), and for what
_Entry = tuple["asyncio.Future[Any] | Future[Any]", asyncio.AbstractEventLoop | None, Callable[[Any], Any]]
#: what became of one operation
_Outcome = tuple[Any, BaseException | None]


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
        self._db = db
        self._path = path
        self._transaction = transaction
        self._clock = clock
        self._boot = boot
        #: called after every commit that changed something, from whichever thread made it
        self._committed = committed
        #: None: close
        self._waiting: SimpleQueue[_Entry | None] = SimpleQueue()
        #: whoever holds it may use the connection
        self._turn = threading.Lock()
        #: whoever holds it may start the thread, or close: nothing is handed in to a writer that has left
        self._door = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None

    def run(self, operation: Callable[[Tx], T]) -> T:
        """For a synchronous caller: in its own thread, without a hop."""
        with self._turn:
            if self._closed:
                raise StoreError("The store is closed.")
            ((result, error),) = self._transact([operation])
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    async def call(self, operation: Callable[[Tx], T]) -> T:
        """For coroutines: handed to the writer thread, committed together with what others hand in."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._hand_in((future, loop, operation))
        return await future

    def submit(self, operation: Callable[[Tx], T]) -> Future[T]:
        """For threads that do something else meanwhile."""
        future: Future[T] = Future()
        self._hand_in((future, None, operation))
        return future

    def close(self) -> None:
        """Finish what was handed in, then close the connection."""
        with self._door:
            self._closed = True
            if self._thread is not None:
                self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()
        with self._turn:
            self._db.close()

    def _hand_in(self, entry: _Entry) -> None:
        with self._door:
            if self._closed:
                raise StoreError("The store is closed.")
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
                    outcomes = self._batch([operation for _, _, operation in batch])
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
        db = self._db
        with named_errors(self._path):
            patiently(lambda: db.execute("begin immediate"))
            before = db.total_changes()
            try:
                tx = self._transaction(db, now=self._clock.now(), mono=self._clock.monotonic(), boot=self._boot)
                for operation in operations:
                    changes, events = db.total_changes(), tx.gathered
                    try:
                        outcomes.append((operation(tx), None))
                    except ManyDesksError as refusal:
                        # a refusal before the first write costs the others of the batch nothing
                        if len(operations) == 1 or db.total_changes() != changes or tx.gathered != events:
                            raise
                        outcomes.append((None, refusal))
                tx.finish()
                db.execute("commit")
            except BaseException:
                if db.in_transaction:
                    db.execute("rollback")
                raise
        if db.total_changes() != before:
            self._tell()
        return outcomes

    def _tell(self) -> None:
        """What is committed stays so: trouble here must not look like a failed batch, which would be run again."""
        try:
            self._committed()
        except Exception:
            log.exception("A commit could not be announced", extra={"action": "announce_failed"})


def _wanted(entry: _Entry) -> bool:
    """Whoever gave up before the batch began leaves no trace."""
    future = entry[0]
    return future.set_running_or_notify_cancel() if isinstance(future, Future) else not future.cancelled()


def _deliver(batch: list[_Entry], outcomes: list[_Outcome]) -> None:
    """Everybody learns what became of their operation; each loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Any, _Outcome]]] = {}
    for (future, loop, _), outcome in zip(batch, outcomes, strict=True):
        if loop is None:
            _resolve([(future, outcome)])
        else:
            by_loop.setdefault(loop, []).append((future, outcome))
    for loop, resolved in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, resolved)
        except RuntimeError:
            log.info("A caller's loop was closed before its answer", extra={"action": "caller_left"})


def _resolve(resolved: list[tuple[Any, _Outcome]]) -> None:
    for future, (result, error) in resolved:
        if future.done():
            continue  # its caller was cancelled; what was done stays done
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
