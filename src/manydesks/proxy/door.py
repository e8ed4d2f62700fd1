"""One session's Unix socket: whoever comes in through it is that session, whatever it says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from manydesks.domain.errors import HomeError
from manydesks.settings.home import reason_of

log = logging.getLogger(__name__)

#: bytes of one connection that wait to be read; twice this much, then the desk has to wait
BUFFER = 64 * 1024

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Door:
    """A socket that only this user may open, and the connections that came in through it."""

    def __init__(self, path: Path, serve: Serve, *, connections: int) -> None:
        self.path = path
        self._serve = serve
        self._most = connections
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._ours = 0

    async def open(self) -> None:
        """Raises `HomeError` if the socket cannot be made."""
        plug = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # the office's lock is ours: what lies here was left by a host that died
            self.path.unlink(missing_ok=True)
            plug.bind(str(self.path))
            # before anybody can connect: a socket takes connections only once it listens
            self.path.chmod(0o600)
            self._ours = self.path.stat().st_ino
            self._server = await asyncio.start_unix_server(self._accept, sock=plug, limit=BUFFER)
        except OSError as error:
            plug.close()
            raise HomeError(home=self.path.parent, reason=f"{self.path}: {reason_of(error)}.") from error

    async def close(self) -> None:
        """Take the socket away and end what came in through it, calls under way included."""
        if self._server is not None:
            self._server.close()
        # it may be another's by now, if somebody deleted ours
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._ours:
                self.path.unlink()
        while self._open:
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._most:
            log.warning("A desk opened too many connections", extra={"action": "line_refused"})
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._host(reader, writer), name=f"proxy {self.path.name}")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _host(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except Exception:
            # a fault of ours ends this connection only
            log.exception("A desk's connection failed", extra={"action": "line_failed"})
        finally:
            writer.transport.abort()
