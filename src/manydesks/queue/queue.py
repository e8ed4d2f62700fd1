"""The queue for synchronous callers: each verb runs in the caller's own thread, as one transaction."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from manydesks.domain.clock import Clock
from manydesks.domain.errors import StoreError
from manydesks.queue import checks
from manydesks.queue.file import JobsFile
from manydesks.queue.jobs import Terms
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Job, Message
from manydesks.queue.operations import Operation, Operations

T = TypeVar("T")

MAX_BYTES = 1_048_576
REGISTER = """
insert into queues (name, max_attempts) values (?, ?)
on conflict (name) do update set max_attempts = excluded.max_attempts where max_attempts <> excluded.max_attempts
"""


class Opened:
    """A named queue in a file; what `Queue` and `AsyncQueue` share."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str = "default",
        *,
        lease: float = 30,
        max_attempts: int = 5,
        durability: str = "power",
        max_bytes: int = MAX_BYTES,
        backoff: float = 5,
        clock: Clock | None = None,
        boot: str | None = None,
    ) -> None:
        """`lease`: seconds that a received message is yours. `max_attempts`: then it is dead. `durability`: what a send
        survives once it has returned, `power` (a power cut) or `crash` (a killed process; faster). `max_bytes`: of a
        body, as JSON. `backoff`: seconds before the first retry, doubled for each further one. `clock`, `boot`: for
        tests."""
        # the machine's clock is read in whole milliseconds: one more, so that no lease ends before its time
        grain = 1 if clock is None else 0
        terms = Terms(
            queue=checks.queue_name(name),
            worker=f"{os.getpid()}-{secrets.token_hex(6)}",
            lease_ms=checks.seconds_ms(lease, "A lease", least=0.001) + grain,
            max_attempts=checks.whole(max_attempts, "max_attempts", least=1, most=1_000_000),
        )
        size = checks.whole(max_bytes, "max_bytes", least=1, most=256 * 1024 * 1024)
        checks.seconds_ms(backoff, "backoff", least=0.001)
        self.name = name
        self.file = JobsFile.open(path, durability=durability, clock=clock, boot=boot)
        self.ops = Operations(terms, max_bytes=size, backoff=backoff, grain=grain)
        self._closed = False
        try:
            self.file.writer.run(lambda tx: tx.run(REGISTER, (name, terms.max_attempts)))
        except BaseException:
            self.file.close()
            raise

    @property
    def terms(self) -> Terms:
        return self.ops.terms

    def close(self) -> None:
        """Claims stay until their leases are over; release them first if others should have them at once."""
        if not self._closed:
            self.file.close()
            self._closed = True

    def _check_open(self) -> None:
        """The file may still be open for others."""
        if self._closed:
            raise StoreError(f"The queue '{self.name}' is closed.")


class Queue(Opened):
    """May be used by several threads. Not across a fork: open it again in the child."""

    def send(
        self,
        body: Any,
        *,
        delay: float = 0,
        priority: int = 0,
        key: str | None = None,
        lane: str | None = None,
        tx: JobsTransaction | None = None,
    ) -> int:
        """Store a job; its id. Returns when it is as safe as `durability` says. A live job of the same key is returned
        instead."""
        return self._do(self.ops.send(body, delay, priority, key, lane), tx)

    def send_batch(
        self,
        bodies: Iterable[Any],
        *,
        delay: float = 0,
        priority: int = 0,
        lane: str | None = None,
        tx: JobsTransaction | None = None,
    ) -> list[int]:
        """Store all of them or none; their ids, in order."""
        return self._do(self.ops.send_batch(bodies, delay, priority, lane), tx)

    def receive(self, *, tx: JobsTransaction | None = None) -> Message | None:
        """The next job that is due, yours for the lease; None at once when there is none."""
        return self._do(self.ops.receive(), tx)

    def receive_batch(self, most: int, *, tx: JobsTransaction | None = None) -> list[Message]:
        """Up to `most` jobs that are due. Those of one lane come in order; those of one claim share a lease."""
        return self._do(self.ops.receive_batch(most), tx)

    def extend(self, message: Message, seconds: float, *, tx: JobsTransaction | None = None) -> bool:
        """The lease ends `seconds` from now, for all that share it. False: it is over."""
        return self._do(self.ops.extend(message, seconds), tx)

    def complete(self, message: Message, *, tx: JobsTransaction | None = None) -> bool:
        """Done. False: the claim is no longer ours, and nothing was changed."""
        return self._do(self.ops.complete(message), tx)

    def complete_batch(self, messages: Iterable[Message], *, tx: JobsTransaction | None = None) -> list[bool]:
        """`complete` for each of them, in one transaction."""
        return self._do(self.ops.complete_batch(messages), tx)

    def fail(
        self,
        message: Message,
        reason: str,
        *,
        retry_in: float | None = None,
        permanent: bool = False,
        tx: JobsTransaction | None = None,
    ) -> bool:
        """The attempt failed: again in `retry_in` seconds (None: by the back-off), or dead if it was the last one or
        the failure is `permanent`. False: the claim is no longer ours."""
        return self._do(self.ops.fail(message, reason, retry_in, permanent), tx)

    def release(self, message: Message, *, tx: JobsTransaction | None = None) -> bool:
        """Given back untouched: ready at once, and no attempt counts. False: the claim is no longer ours."""
        return self._do(self.ops.release(message), tx)

    def dead_letters(self, *, after: int = 0, limit: int = 1000, tx: JobsTransaction | None = None) -> list[Job]:
        """Jobs that have no attempt left, in the order of their ids."""
        operation = self.ops.dead_letters(after, limit)
        self._catch_up(tx)
        return self._do(operation, tx)

    def requeue(self, id: int, *, tx: JobsTransaction | None = None) -> None:
        """A dead job starts anew with attempt 1, at the end of its lane."""
        self._do(self.ops.requeue(id), tx)

    def hasten(self, id: int, *, tx: JobsTransaction | None = None) -> None:
        """A job that was sent with a delay, or that backs off, is due now."""
        self._do(self.ops.hasten(id), tx)

    def drop(self, id: int, *, tx: JobsTransaction | None = None) -> None:
        """A dead job becomes cancelled."""
        self._do(self.ops.drop(id), tx)

    def cancel(self, id: int, *, tx: JobsTransaction | None = None) -> bool:
        """Nobody is to work on it any more; whoever does is refused at the end. False: it has ended already."""
        return self._do(self.ops.cancel(id), tx)

    def purge(self, *, tx: JobsTransaction | None = None) -> int:
        """Delete what is not claimed and was sent before this call; how many. In small steps, or at once with `tx`."""
        upto, after, deleted = self._do(self.ops.last_id(), tx), 0, 0
        while True:
            n, last = self._do(self.ops.purge_step(after, upto), tx)
            deleted += n
            if last is None:
                return deleted
            after = last

    def prune(self, older_than: float, *, tx: JobsTransaction | None = None) -> int:
        """Delete what was completed or cancelled more than `older_than` seconds ago, and events as old; how many jobs.
        In small steps, or at once with `tx`."""
        older = checks.seconds_ms(older_than, "older_than")
        upto, after, deleted = self._do(self.ops.last_id(), tx), 0, 0
        while (step := self._do(self.ops.prune_step(older, after, upto), tx))[1] is not None:
            deleted, after = deleted + step[0], step[1]
        while self._do(self.ops.prune_events_step(older), tx):
            pass
        return deleted

    def pause(self, *, tx: JobsTransaction | None = None) -> None:
        """Nothing is handed out any more, to any process; sends and what is claimed go on."""
        self._do(self.ops.pause(True), tx)

    def resume(self, *, tx: JobsTransaction | None = None) -> None:
        self._do(self.ops.pause(False), tx)

    def stats(self, *, tx: JobsTransaction | None = None) -> dict[str, int]:
        """How many jobs are ready, claimed, delayed (or backing off), completed, dead, cancelled."""
        operation = self.ops.stats()
        self._catch_up(tx)
        return self._do(operation, tx)

    def list(
        self, status: str | None = None, *, after: int = 0, limit: int = 100, tx: JobsTransaction | None = None
    ) -> list[Job]:
        """Jobs as they stand, in the order of their ids."""
        operation = self.ops.list(status, after, limit)
        self._catch_up(tx)
        return self._do(operation, tx)

    def show(self, id: int, *, tx: JobsTransaction | None = None) -> Job:
        return self._do(self.ops.show(id), tx)

    def transaction(self) -> AbstractContextManager[JobsTransaction]:
        """One transaction for several verbs, of any queue in this file, and for your own SQL: `tx.execute(…)`.

        Others who write wait until it ends: keep it short.
        """
        self._check_open()
        return self.file.writer.transaction()

    def _catch_up(self, tx: JobsTransaction | None) -> None:
        """Whoever looks sees every timer and every lease that is over, in steps that hold nobody up."""
        while self._do(self.ops.sweep_step(), tx):
            pass

    def _do(self, operation: Operation[T], tx: JobsTransaction | None) -> T:
        self._check_open()
        return self.file.writer.run(operation) if tx is None else self.file.within(tx, operation)

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
