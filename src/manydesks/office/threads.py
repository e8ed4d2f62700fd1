"""Where blocking mailbox calls run: they wait on files and on a desk's locks, so never on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 16
#: Calls at once that are done in a moment, as nearly all are. More of them would only wake each other up for the
#: interpreter's lock: with all threads at work a message took twice the system's time.
AT_ONCE = 3
#: a call that takes longer than a moment waits for something else than the interpreter, and keeps nobody waiting
MOMENT_SECONDS = 0.05


class MailboxThreads:
    """One sick session holds at most one of them, for the mailbox's own limit of 2 s. Made in a running loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mailbox")
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        await self._places.acquire()
        loop, place = asyncio.get_running_loop(), _Place(self._places)
        try:
            done = loop.run_in_executor(self._pool, call, *args)
        except BaseException:
            place.leave()
            raise
        moment = loop.call_later(MOMENT_SECONDS, place.leave)
        done.add_done_callback(lambda _: place.leave(moment))
        return await done

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class _Place:
    """One of those at once; left when the call has ended or its moment is over, whichever is first."""

    __slots__ = ("_left", "_places")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._left = False

    def leave(self, moment: asyncio.TimerHandle | None = None) -> None:
        if moment is not None:
            moment.cancel()
        if not self._left:
            self._left = True
            self._places.release()
