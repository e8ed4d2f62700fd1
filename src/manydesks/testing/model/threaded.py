"""The server in a thread of its own, for tests that have no event loop or block the one they have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from manydesks.domain.clock import Clock
from manydesks.testing.model.record import SECONDS, Ending, Request
from manydesks.testing.model.script import Play, Script
from manydesks.testing.model.server import ModelServer

T = TypeVar("T")


class ScriptedModel:
    """A `ModelServer` whose verbs block instead of being awaited; they may be called from any thread."""

    def __init__(
        self,
        script: Script | Iterable[Play] = (),
        *,
        port: int = 0,
        socket: Path | None = None,
        key: str | None = None,
        keep: int | None = None,
        salt: str | None = None,
        clock: Clock | None = None,
        on_request: Callable[[Request], object] | None = None,
    ) -> None:
        self._server = ModelServer(
            script, port=port, socket=socket, key=key, keep=keep, salt=salt, clock=clock, on_request=on_request
        )
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Return when clients can connect. Raises OSError if the port or the path cannot be had."""
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="scripted-model", daemon=True
        )
        self._thread.start()
        started.result()

    def close(self) -> None:
        """End every connection, also in the middle of an answer. Raises what a function of the script raised."""
        if self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._closed.result()

    def __enter__(self) -> ScriptedModel:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def socket(self) -> Path | None:
        return self._server.socket

    @property
    def base_url(self) -> str:
        """For Anthropic's clients."""
        return self._server.base_url

    @property
    def openai_url(self) -> str:
        """For OpenAI's clients."""
        return self._server.openai_url

    @property
    def requests(self) -> tuple[Request, ...]:
        return self._server.requests

    @property
    def others(self) -> tuple[Request, ...]:
        return self._server.others

    @property
    def endings(self) -> tuple[Ending, ...]:
        return self._server.endings

    def play(self, *turns: Play) -> None:
        """Add turns at the end of the script."""
        self._call(lambda: self._server.play(*turns))

    def release(self) -> None:
        """Let every answer go on that stands still now."""
        self._call(self._server.release)

    def wait_requests(self, count: int, seconds: float = SECONDS) -> tuple[Request, ...]:
        """All requests for answers, once there were so many. Raises AssertionError when the time is up."""
        return asyncio.run_coroutine_threadsafe(self._server.wait_requests(count, seconds), self._loop).result()

    def wait_endings(self, count: int, seconds: float = SECONDS) -> tuple[Ending, ...]:
        return asyncio.run_coroutine_threadsafe(self._server.wait_endings(count, seconds), self._loop).result()

    def wait_hanging(self, count: int, seconds: float = SECONDS) -> None:
        asyncio.run_coroutine_threadsafe(self._server.wait_hanging(count, seconds), self._loop).result()

    def _call(self, act: Callable[[], T]) -> T:
        """Do it in the server's thread, and return when it is done."""

        async def acts() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acts(), self._loop).result()

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._closed: Future[None] = Future()
        try:
            await self._server.start()
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(None)
        await self._stop.wait()
        try:
            await self._server.close()
        except Exception as error:  # noqa: BLE001 - it is raised again where it belongs, in the thread that closes
            self._closed.set_exception(error)
        else:
            self._closed.set_result(None)
