"""A processor's handlers as tasks: for coroutine functions."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from manydesks.domain.errors import StoreError
from manydesks.queue import jobs
from manydesks.queue.ear import Ear
from manydesks.queue.file import JobsFile
from manydesks.queue.heartbeat import Heartbeat
from manydesks.queue.message import Message
from manydesks.queue.operations import Operations
from manydesks.queue.round import Ended, Outcome, round_of
from manydesks.queue.threads import TRY_AGAIN_SECONDS, pause_after, say_lost

log = logging.getLogger(__name__)


class Tasks:
    """One task keeps the books, the others run the handler."""

    def __init__(
        self,
        file: JobsFile,
        ops: Operations,
        handler: Callable[[Message], Any],
        slots: int,
        drain: float,
    ) -> None:
        self._file = file
        self._ops = ops
        self._handler = handler
        self._slots = slots
        self._drain = drain
        self._ended: list[Ended] = []
        self._running: dict[asyncio.Task[None], Message] = {}
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        #: taken, but nobody runs them
        self._unbegun: list[Message] = []
        #: handlers that are still there are cancelled
        self._cut = False

    def stop(self) -> None:
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        """From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            with Ear(self._file, self._wake), Heartbeat(self._file, self._ops.terms):
                await self._keep_books()
        finally:
            await self._let_go()

    async def _keep_books(self) -> None:
        deadline: float | None = None
        wait = 0.0
        while True:
            await self._hear(wait)
            if self._stopping:
                deadline = deadline or asyncio.get_running_loop().time() + self._drain
                if not self._ended and (not self._running or asyncio.get_running_loop().time() >= deadline):
                    return
            ended, self._ended = self._ended, []
            free = 0 if self._stopping else self._slots - len(self._running)
            try:
                outcome = await self._round(ended, free)
            except StoreError as error:
                self._ended = ended + self._ended
                if deadline is not None and asyncio.get_running_loop().time() >= deadline:
                    return
                log.error("%s", error, extra={"action": "round_failed"})
                await asyncio.sleep(TRY_AGAIN_SECONDS)
                wait = 0.0
                continue
            for message in outcome.taken:
                self._running[asyncio.create_task(self._handle(message))] = message
            say_lost(outcome)
            if deadline is None:
                wait = pause_after(outcome, self._slots - len(self._running))
            else:
                # the last one has been settled: nobody will say so again
                wait = deadline - asyncio.get_running_loop().time() if self._running else 0.0

    async def _round(self, ended: list[Ended], free: int) -> Outcome:
        """Whoever is cancelled meanwhile waits for it: what it takes has to be given back."""
        call = self._file.writer.call(round_of(self._ops, ended, free))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait({call})
            if call.exception() is None:
                self._unbegun = call.result().taken
            else:
                self._ended = ended + self._ended
            raise

    async def _hear(self, seconds: float) -> None:
        if not self._ended and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                pass
        else:
            # let those who are ready end first: what they have to settle shares the round
            await asyncio.sleep(0)
        self._news.clear()

    async def _handle(self, message: Message) -> None:
        error: BaseException | None = None
        try:
            result = self._handler(message)
            if inspect.isawaitable(result):
                await result
        except asyncio.CancelledError as cancelled:
            if self._cut:
                raise
            # by something of its own: the job must not stay claimed for ever
            error = cancelled
        except Exception as raised:  # noqa: BLE001 - it fails the job, which says so
            error = raised
        task = asyncio.current_task()
        assert task is not None
        self._running.pop(task, None)
        self._ended.append(Ended(message, error))
        self._news.set()

    async def _let_go(self) -> None:
        """Handlers that did not end in time are cancelled, and their jobs given back."""
        self._cut = True
        running = dict(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
            log.warning("%d handlers did not end in time", len(running), extra={"action": "drain_cut"})
        left, ended = [message for task, message in running.items() if task in self._running], self._ended
        left += self._unbegun
        if left or ended:

            def settle(tx: Any) -> None:
                round_of(self._ops, ended, 0)(tx)
                for message in left:
                    jobs.release(tx, self._ops.terms, message)

            await self._file.writer.call(settle)
