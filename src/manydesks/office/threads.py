"""Where blocking mailbox calls run: they wait on files and on a desk's locks, so never on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 16


class MailboxThreads:
    """One sick session holds at most one of them, for the mailbox's own limit of 2 s."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mailbox")

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
