"""A processor: hands jobs to a function, settles what comes back, and goes on until it is told to stop."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import secrets
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.queue import checks
from manydesks.queue.async_queue import AsyncQueue
from manydesks.queue.message import Message
from manydesks.queue.operations import Operations
from manydesks.queue.queue import Queue
from manydesks.queue.tasks import Tasks
from manydesks.queue.threads import Threads


class Processor:
    """`Processor(queue, handler).run()` with a `Queue` and a function, `await ….run()` with an `AsyncQueue` and a
    coroutine function.

    A handler that returns completes its job; one that raises fails it: again after the queue's back-off, dead after
    its last attempt, or at once if it raised `Permanent`. Leases are extended as long as the handler runs. Jobs of one
    lane are handled in order, one at a time.
    """

    def __init__(
        self,
        queue: Queue | AsyncQueue,
        handler: Callable[[Message], Any],
        *,
        concurrency: int = 4,
        drain: float = 30,
        signals: bool = True,
    ) -> None:
        """`concurrency`: jobs at a time. `drain`: seconds that handlers have to end after `stop`. `signals`: SIGTERM
        and SIGINT stop it, if it runs in the main thread; a second one ends it without waiting."""
        _refuse_unfit(queue, handler)
        slots = checks.whole(concurrency, "concurrency", least=1, most=10_000)
        seconds = checks.seconds_ms(drain, "drain") / 1000
        # its own name in claims: the heartbeat must not keep alive what others receive from the same queue
        terms = dataclasses.replace(queue.terms, worker=f"{queue.terms.worker}-{secrets.token_hex(3)}")
        ops: Operations = queue.ops.under(terms)
        self._engine: Threads | Tasks
        if isinstance(queue, AsyncQueue):
            self._engine = Tasks(queue.file, ops, handler, slots, seconds)
        else:
            self._engine = Threads(queue.file, ops, handler, slots, seconds)
        self._signals = signals

    def run(self) -> Awaitable[None] | None:
        """Work until `stop`. With an `AsyncQueue`: a coroutine that does."""
        if isinstance(self._engine, Tasks):
            return self._run_tasks(self._engine)
        with self._stopped_by_signals():
            self._engine.run()
        return None

    def stop(self) -> None:
        """Take nothing more, let the handlers end within the drain time, then return from `run`. From any thread."""
        self._engine.stop()

    async def _run_tasks(self, engine: Tasks) -> None:
        with self._stopped_by_signals():
            await engine.run()

    @contextlib.contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        if not self._signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def stop(number: int, _frame: object) -> None:
            signal.signal(number, before[signal.Signals(number)])
            self.stop()

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _refuse_unfit(queue: Queue | AsyncQueue, handler: Callable[[Message], Any]) -> None:
    if not callable(handler):
        raise BadInput(f"A handler is a function that takes a message, not {handler!r:.60}.")
    if not isinstance(queue, AsyncQueue) and (
        inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
    ):
        raise BadInput("A coroutine function is a handler for an AsyncQueue; a Queue takes an ordinary function.")
