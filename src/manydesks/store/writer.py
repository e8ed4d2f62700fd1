"""The writer: the only write connection, and group commit.

Callers hand in operations; a batch forms while the commit before it waits for the disk, and up to 512 operations share
one transaction. If one of them fails, the batch is rolled back and replayed one by one, so only the guilty one fails.
Operations may therefore run twice: they touch nothing but their transaction.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import apsw

from manydesks.domain.clock import Clock
from manydesks.domain.errors import ManyDesksError, StoreBusy, StoreError
from manydesks.store.database import named_errors, patiently
from manydesks.store.transaction import Transaction

T = TypeVar("T")
Operation = Callable[[Transaction], T]

BATCH = 512

log = logging.getLogger(__name__)


class Writer:
    """Runs operations, each exactly once in the store, in the order they were handed in."""

    def __init__(
        self,
        db: apsw.Connection,
        path: Path,
        *,
        clock: Clock,
        boot: str,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        # `patiently` instead
        db.set_busy_timeout(0)
        self._db = db
        self._path = path
        self._clock = clock
        self._boot = boot
        #: called after every commit that changed something, from whichever thread made it
        self._committed = committed
        self._waiting: deque[tuple[Future[Any], Operation[Any]]] = deque()
        self._signal = threading.Semaphore(0)
        #: whoever holds it may use the connection
        self._turn = threading.Lock()
        #: whoever holds it may hand in, or close: nothing is handed in to a writer that has left
        self._door = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None

    def run(self, operation: Operation[T]) -> T:
        """For a synchronous caller: in its own thread, without a hop."""
        future: Future[T] = Future()
        with self._turn:
            self._refuse_closed()
            self._batch([(future, operation)])
        return future.result()

    async def call(self, operation: Operation[T]) -> T:
        """For coroutines: handed to the writer thread, committed together with what others hand in."""
        return await asyncio.wrap_future(self.submit(operation))

    def submit(self, operation: Operation[T]) -> Future[T]:
        future: Future[T] = Future()
        with self._door:
            self._refuse_closed()
            self._waiting.append((future, operation))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
                self._thread.start()
        self._signal.release()
        return future

    def close(self) -> None:
        """Finish what was handed in, then close the connection."""
        with self._door:
            self._closed = True
        if self._thread is not None:
            self._signal.release()
            self._thread.join()
        with self._turn:
            self._db.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.")

    def _work(self) -> None:
        while True:
            self._signal.acquire()
            while self._waiting:
                with self._turn:
                    batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                    self._batch([entry for entry in batch if entry[0].set_running_or_notify_cancel()])
            # in this order: after `closed` nothing more is handed in, so an empty queue stays empty
            if self._closed and not self._waiting:
                return

    def _batch(self, batch: list[tuple[Future[Any], Operation[Any]]]) -> None:
        """One transaction for all of them, or, if that fails, one for each."""
        if not batch:
            return
        try:
            outcomes = self._transact([operation for _, operation in batch])
        except StoreBusy as error:
            # nobody's operation: each by itself would only wait as long again
            for future, _ in batch:
                future.set_exception(error)
            return
        except BaseException as error:  # noqa: BLE001 - handed to the caller whose operation it was
            if len(batch) == 1:
                batch[0][0].set_exception(error)
                return
            for entry in batch:
                self._batch([entry])
            return
        for (future, _), (result, refusal) in zip(batch, outcomes, strict=True):
            if refusal is not None:
                future.set_exception(refusal)
            else:
                future.set_result(result)

    def _transact(self, operations: list[Operation[Any]]) -> list[tuple[Any, ManyDesksError | None]]:
        outcomes: list[tuple[Any, ManyDesksError | None]] = []
        with named_errors(self._path):
            patiently(lambda: self._db.execute("begin immediate"))
            before = self._db.total_changes()
            try:
                tx = Transaction(self._db, now=self._clock.now(), mono=self._clock.monotonic(), boot=self._boot)
                for operation in operations:
                    outcomes.append(self._attempt(operation, tx, alone=len(operations) == 1))
                tx.finish()
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
        if self._db.total_changes() != before:
            self._tell()
        return outcomes

    def _tell(self) -> None:
        """What is committed stays so: trouble here must not look like a failed batch, which would be run again."""
        try:
            self._committed()
        except Exception:
            log.exception("A commit could not be announced", extra={"action": "announce_failed"})

    def _attempt(self, operation: Operation[Any], tx: Transaction, *, alone: bool) -> tuple[Any, ManyDesksError | None]:
        """A refusal before the first write costs the others of the batch nothing."""
        changes, gathered = self._db.total_changes(), tx.gathered
        try:
            return operation(tx), None
        except ManyDesksError as refusal:
            if alone or self._db.total_changes() != changes or tx.gathered != gathered:
                raise
            return None, refusal
