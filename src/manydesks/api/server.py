"""uvicorn, as a guest in the office's process: it handles no signal, sets up no log, and closes when it is told."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Generator
from typing import Any, cast

import uvicorn

from manydesks.api.line import IDLE_SECONDS, Line, most_lines

#: connections that wait to be taken
BACKLOG = 1024
#: what is being answered when the office closes gets this long
CLOSING_SECONDS = 2
#: heads of requests are small; more is refused before it is kept
MOST_HEAD_BYTES = 64 * 1024
TICK_SECONDS = 1.0


class Server(uvicorn.Server):
    """One for each office."""

    def __init__(
        self,
        app: Any,
        *,
        certificate: str = "",
        key: str = "",
        most: int | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`most`: connections at one time; None: as many as the system's bounds allow."""
        most = most_lines() if most is None else most
        super().__init__(
            uvicorn.Config(
                app,
                http=Line.bounded(most, idle_seconds),
                # as many are taken at once, before any of them is counted
                backlog=max(1, min(BACKLOG, most // 4)),
                ws="none",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=math.ceil(idle_seconds),
                timeout_graceful_shutdown=CLOSING_SECONDS,
                h11_max_incomplete_event_size=MOST_HEAD_BYTES,
                ssl_certfile=certificate or None,
                ssl_keyfile=key or None,
                # of a key that has one: any wrong one, or the terminal would be asked while the office waits
                ssl_keyfile_password="-" if key else None,
            )
        )
        self._answers, self._closing = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, listener: socket.socket) -> None:
        """Returns when it answers. Raises what the files of HTTPS are refused with."""
        # here, and not in the task: what is wrong with them is said
        self.config.load()
        self._task = asyncio.create_task(self.serve(sockets=[listener]), name="api")
        answers = asyncio.create_task(self._answers.wait())
        await asyncio.wait({answers, self._task}, return_when=asyncio.FIRST_COMPLETED)
        answers.cancel()

    async def close(self) -> None:
        self.should_exit = True
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The office has its own way to close."""
        yield

    async def main_loop(self) -> None:
        """uvicorn's own looks ten times a second whether it should close; an idle office sleeps."""
        self._answers.set()
        while not self.should_exit:
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._closing.wait()


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address, with its port taken. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Handed down to each connection. asyncio only sets it on sockets that name their protocol, and without it the body
    # of each answer is held back until the other side has confirmed its head: up to 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


def port_of(listener: socket.socket) -> int:
    return cast("int", listener.getsockname()[1])
