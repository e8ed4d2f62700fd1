"""Read-only connections to the store, each with a thread of its own: a slow read holds up nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from manydesks.office.wire import SOCKET
from manydesks.settings.home import Home
from manydesks.store.reader import Reader

T = TypeVar("T")

#: reads at one time: short ones, which wait for the disk more than for a core
THREADS = 4
#: and long ones, of those who follow the events from far back: however many they are, nobody else waits for them
BEHIND = 2


class Readers:
    """One for each office."""

    def __init__(self, home: Home, threads: int = THREADS) -> None:
        self._home = home
        self._pool = ThreadPoolExecutor(threads, "api-reader")
        self._behind = ThreadPoolExecutor(BEHIND, "api-behind")
        self._mine = threading.local()
        self._opened: list[Reader] = []

    async def read(self, look: Callable[[Reader], T]) -> T:
        """What `look` finds, in a thread. It must not keep the reader."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._look, look)

    async def read_behind(self, look: Callable[[Reader], T]) -> T:
        """The same for whoever has much to catch up with."""
        return await asyncio.get_running_loop().run_in_executor(self._behind, self._look, look)

    async def work(self, blocking: Callable[[], T]) -> T:
        """Something else that blocks for a moment: a file that is read or written."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, blocking)

    def close(self) -> None:
        """What is being read is read to its end."""
        for pool in (self._pool, self._behind):
            pool.shutdown(wait=True, cancel_futures=True)
        for reader in self._opened:
            reader.close()

    def _look(self, look: Callable[[Reader], T]) -> T:
        reader: Reader | None = getattr(self._mine, "reader", None)
        if reader is None:
            reader = self._mine.reader = Reader(self._home.office_db, sockets=self._home.socket(SOCKET).parent)
            self._opened.append(reader)
        return look(reader)
