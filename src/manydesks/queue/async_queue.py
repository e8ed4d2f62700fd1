"""The queue for coroutines: the same verbs, on the group-commit writer."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar

from manydesks.queue import checks
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Job, Message
from manydesks.queue.operations import Operation
from manydesks.queue.queue import Opened

T = TypeVar("T")


class AsyncQueue(Opened):
    """The verbs of `Queue`, whose docstrings hold here too; what many coroutines ask for at once shares a commit."""

    def _give_back_one(self, message: Message | None) -> None:
        if message is not None:
            self._give_back([message])

    def _give_back(self, messages: list[Message]) -> None:
        """Their caller was cancelled while they were on their way: nobody would ever work on them."""
        if messages:
            self.file.writer.submit(self.ops.give_back(messages))

    async def send(
        self,
        body: Any,
        *,
        delay: float = 0,
        priority: int = 0,
        key: str | None = None,
        lane: str | None = None,
        tx: JobsTransaction | None = None,
    ) -> int:
        return await self._do(self.ops.send(body, delay, priority, key, lane), tx)

    async def send_batch(
        self,
        bodies: Iterable[Any],
        *,
        delay: float = 0,
        priority: int = 0,
        lane: str | None = None,
        tx: JobsTransaction | None = None,
    ) -> list[int]:
        return await self._do(self.ops.send_batch(bodies, delay, priority, lane), tx)

    async def receive(self, *, tx: JobsTransaction | None = None) -> Message | None:
        if tx is not None:
            return await self._do(self.ops.receive(), tx)
        self._check_open()
        return await self.file.writer.call(self.ops.receive(), self._give_back_one)

    async def receive_batch(self, most: int, *, tx: JobsTransaction | None = None) -> list[Message]:
        operation = self.ops.receive_batch(most)
        if tx is not None:
            return await self._do(operation, tx)
        self._check_open()
        return await self.file.writer.call(operation, self._give_back)

    async def extend(self, message: Message, seconds: float, *, tx: JobsTransaction | None = None) -> bool:
        return await self._do(self.ops.extend(message, seconds), tx)

    async def complete(self, message: Message, *, tx: JobsTransaction | None = None) -> bool:
        return await self._do(self.ops.complete(message), tx)

    async def complete_batch(self, messages: Iterable[Message], *, tx: JobsTransaction | None = None) -> list[bool]:
        return await self._do(self.ops.complete_batch(messages), tx)

    async def fail(
        self,
        message: Message,
        reason: str,
        *,
        retry_in: float | None = None,
        permanent: bool = False,
        tx: JobsTransaction | None = None,
    ) -> bool:
        return await self._do(self.ops.fail(message, reason, retry_in, permanent), tx)

    async def release(self, message: Message, *, tx: JobsTransaction | None = None) -> bool:
        return await self._do(self.ops.release(message), tx)

    async def dead_letters(self, *, after: int = 0, limit: int = 1000, tx: JobsTransaction | None = None) -> list[Job]:
        operation = self.ops.dead_letters(after, limit)
        await self._catch_up(tx)
        return await self._do(operation, tx)

    async def requeue(self, id: int, *, tx: JobsTransaction | None = None) -> None:
        await self._do(self.ops.requeue(id), tx)

    async def hasten(self, id: int, *, tx: JobsTransaction | None = None) -> None:
        await self._do(self.ops.hasten(id), tx)

    async def drop(self, id: int, *, tx: JobsTransaction | None = None) -> None:
        await self._do(self.ops.drop(id), tx)

    async def cancel(self, id: int, *, tx: JobsTransaction | None = None) -> bool:
        return await self._do(self.ops.cancel(id), tx)

    async def purge(self, *, tx: JobsTransaction | None = None) -> int:
        upto, after, deleted = await self._do(self.ops.last_id(), tx), 0, 0
        while True:
            n, last = await self._do(self.ops.purge_step(after, upto), tx)
            deleted += n
            if last is None:
                return deleted
            after = last

    async def prune(self, older_than: float, *, tx: JobsTransaction | None = None) -> int:
        older = checks.seconds_ms(older_than, "older_than")
        upto, after, deleted = await self._do(self.ops.last_id(), tx), 0, 0
        while (step := await self._do(self.ops.prune_step(older, after, upto), tx))[1] is not None:
            deleted, after = deleted + step[0], step[1]
        while await self._do(self.ops.prune_events_step(older), tx):
            pass
        return deleted

    async def pause(self, *, tx: JobsTransaction | None = None) -> None:
        await self._do(self.ops.pause(True), tx)

    async def resume(self, *, tx: JobsTransaction | None = None) -> None:
        await self._do(self.ops.pause(False), tx)

    async def stats(self, *, tx: JobsTransaction | None = None) -> dict[str, int]:
        operation = self.ops.stats()
        await self._catch_up(tx)
        return await self._do(operation, tx)

    async def list(
        self, status: str | None = None, *, after: int = 0, limit: int = 100, tx: JobsTransaction | None = None
    ) -> list[Job]:
        operation = self.ops.list(status, after, limit)
        await self._catch_up(tx)
        return await self._do(operation, tx)

    async def show(self, id: int, *, tx: JobsTransaction | None = None) -> Job:
        return await self._do(self.ops.show(id), tx)

    def transaction(self) -> AbstractAsyncContextManager[JobsTransaction]:
        self._check_open()
        return self.file.writer.async_transaction()

    async def _catch_up(self, tx: JobsTransaction | None) -> None:
        """Whoever looks sees every timer and every lease that is over, in steps that hold nobody up."""
        while await self._do(self.ops.sweep_step(), tx):
            pass

    def _do(self, operation: Operation[T], tx: JobsTransaction | None) -> Awaitable[T]:
        self._check_open()
        # not a coroutine itself: one frame less for every verb to go through
        return self.file.writer.call(operation) if tx is None else self._within(tx, operation)

    async def _within(self, tx: JobsTransaction, operation: Operation[T]) -> T:
        return self.file.within(tx, operation)

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
