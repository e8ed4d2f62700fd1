"""Lets programs at a desk reach the proxy: they speak TCP to loopback, the proxy is a Unix socket.

For providers whose descriptor says `needs_tcp`. A sandbox has a network of its own with nothing in it but loopback, so
this port is the desk's alone; without a sandbox it is the machine's, and whoever works there could use it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

#: one read, and what may wait to be written before the other side has to wait
PIECE = 64 * 1024

HOST = "127.0.0.1"


class Forwarder:
    """Hands bytes on, both ways, as fast as the slower side takes them, and looks at none of them."""

    def __init__(self, socket: Path, *, port: int = 0) -> None:
        self._socket = socket
        self._wanted = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port it listens on, once it does."""
        assert self._server is not None, "not started"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen on loopback. Raises `OSError` if the port is taken."""
        self._server = await asyncio.start_server(self._accept, HOST, self._wanted, limit=PIECE)

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        while self._open:
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._join(reader, writer), name="forwarder")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(str(self._socket), limit=PIECE)
        except OSError:
            # the office has taken the door away, or has ended; a broken connection is what a program expects then
            writer.transport.abort()
            return
        ways = [
            asyncio.ensure_future(_copy(reader, far_writer)),
            asyncio.ensure_future(_copy(far_reader, writer)),
        ]
        try:
            # a side that only ends its own half is waited for; one that breaks off takes the other with it
            await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for way in ways:
                way.cancel()
            # what was taken is still delivered; before anything is awaited, since this may be the end of the runner
            writer.close()
            far_writer.close()
            await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
