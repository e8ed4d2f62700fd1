"""A session's past as the provider holds it: read when needed, kept while it is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from manydesks.runner.providers.http_api.failure import transient
from manydesks.runner.providers.http_api.files import Files
from manydesks.runner.providers.http_api.history import History, Past
from manydesks.runner.providers.http_api.talk import Exchange

T = TypeVar("T")

#: bytes of history for each token of context: more than any model packs into one
BYTES_PER_TOKEN = 8


class Memory:
    """Raises `CallFailed` if the file cannot be used."""

    def __init__(self, history: History, files: Files, *, context_tokens: int) -> None:
        self._history = history
        self._files = files
        self._most = context_tokens * BYTES_PER_TOKEN
        self._past = Past()
        #: what `_past` is the past of; False: of nothing that is known
        self._at: str | bool | None = False

    async def recall(self, continuation: str | None) -> Past:
        """What the host has accepted so far."""
        if self._at is False or self._at != continuation:
            self._past = await settled(lambda: self._read(continuation))
            self._at = continuation
        return self._past

    def _read(self, continuation: str | None) -> Past:
        past = self._history.read(continuation, self._most)
        self._files.prune(entry for exchange in past.exchanges for entry in exchange.entries)
        return past

    async def keep(self, past: Past, exchange: Exchange) -> str:
        """Add a turn to this past; returns its continuation."""
        # until the write is known to be whole, the file may hold anything behind the last position
        self._at = False
        continuation = await settled(lambda: self._history.append(exchange))
        self._past = Past(exchanges=(*past.exchanges, exchange), cut=past.cut)
        self._at = continuation
        return continuation


async def settled(act: Callable[[], T]) -> T:
    """In a thread. A thread cannot be cancelled: a turn that ends early waits for it, since the next uses the file."""
    task = asyncio.create_task(asyncio.to_thread(act))
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    try:
        return task.result()
    except OSError as error:
        raise transient(f"the session's own files cannot be used: {error.strerror or error}") from error
