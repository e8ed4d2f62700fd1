"""A processor's handlers in threads: for ordinary functions."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from manydesks.domain.errors import StoreError
from manydesks.queue.ear import Ear
from manydesks.queue.file import JobsFile
from manydesks.queue.heartbeat import Heartbeat
from manydesks.queue.message import Message
from manydesks.queue.operations import Operations
from manydesks.queue.round import Ended, Outcome, Permanent, round_of

log = logging.getLogger(__name__)

#: a full disk, a locked file: what has ended waits this long to be settled again
TRY_AGAIN_SECONDS = 0.5


class Threads:
    """One thread keeps the books, the others run the handler."""

    def __init__(
        self, file: JobsFile, ops: Operations, handler: Callable[[Message], Any], slots: int, drain: float
    ) -> None:
        self._file = file
        self._ops = ops
        self._handler = handler
        self._slots = slots
        self._drain = drain
        #: what the bookkeeper wakes up for; None: look again
        self._news: SimpleQueue[Ended | None] = SimpleQueue()
        self._work: SimpleQueue[Message | None] = SimpleQueue()
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        self._news.put(None)

    def run(self) -> None:
        for number in range(self._slots):
            threading.Thread(target=self._handle, name=f"queue-handler-{number}", daemon=True).start()
        try:
            with Ear(self._file, lambda: self._news.put(None)), Heartbeat(self._file, self._ops.terms):
                self._keep_books()
        finally:
            for _ in range(self._slots):
                self._work.put(None)

    def _keep_books(self) -> None:
        ended: list[Ended] = []
        running, deadline, wait = 0, None, 0.0
        while True:
            for end in self._hear(wait):
                ended.append(end)
                running -= 1
            if self._stopping:
                deadline = deadline or time.monotonic() + self._drain
                if not ended and (not running or time.monotonic() >= deadline):
                    break
            try:
                outcome = self._file.writer.run(
                    round_of(self._ops, ended, 0 if self._stopping else self._slots - running)
                )
            except StoreError as error:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                log.error("%s", error, extra={"action": "round_failed"})
                wait = TRY_AGAIN_SECONDS
                continue
            ended = []
            running += len(outcome.taken)
            for message in outcome.taken:
                self._work.put(message)
            say_lost(outcome)
            if deadline is None:
                wait = pause_after(outcome, self._slots - running)
            else:
                # the last one has been settled: nobody will say so again
                wait = deadline - time.monotonic() if running else 0.0
        if running:
            log.warning("%d handlers did not end in time", running, extra={"action": "drain_cut"})

    def _hear(self, seconds: float) -> list[Ended]:
        """What came, waiting up to `seconds` for the first of it."""
        heard: list[Ended] = []
        try:
            news = self._news.get(timeout=seconds) if seconds > 0 else self._news.get_nowait()
            while True:
                if news is not None:
                    heard.append(news)
                news = self._news.get_nowait()
        except Empty:
            return heard

    def _handle(self) -> None:
        while (message := self._work.get()) is not None:
            try:
                refuse_awaitable(self._handler(message))
            except BaseException as error:  # noqa: BLE001 - it fails the job, which says so
                self._news.put(Ended(message, error))
            else:
                self._news.put(Ended(message, None))


def refuse_awaitable(result: object) -> None:
    """Nobody would await it: what the handler was to do has not been done."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise Permanent("the handler returned a coroutine: use an AsyncQueue, or an ordinary function")


def pause_after(outcome: Outcome, free: int) -> float:
    """How long to sleep if nobody wakes us."""
    if free and outcome.wait_ms is not None:
        return min(60.0, max(0.001, outcome.wait_ms / 1000))
    return 60.0


def say_lost(outcome: Outcome) -> None:
    for message in outcome.lost:
        log.warning("Job %d was handled after its lease", message.id, extra={"action": "lease_lost"})
