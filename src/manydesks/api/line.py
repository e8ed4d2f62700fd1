"""One connection, which costs a stranger more than the office: who says nothing, or too slowly, is not kept for long.

uvicorn's own has no such bounds: before the first request, and while a head comes byte by byte, it waits for ever, and
every connection is an open file of the office, which has only so many.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import resource
import sys
import termios
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: a connection without a whole head of a request is closed after this, from its beginning or from the last answer
IDLE_SECONDS = 30.0
#: open files that an office with an API asks for, if the system grants them
FILES = 8192
NOT_HTTP = "This is not HTTP as the office speaks it."


def most_lines() -> int:
    """How many connections are kept: half of the files that may be open. The rest is for desks, the store and logs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > soft:
        wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        if wanted > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(16, soft // 2)


class Line(H11Protocol):
    """A connection that can be dropped by whoever answers it: one that reads nothing cannot be closed in good order."""

    #: connections at one time
    most = 1 << 20
    idle_seconds = IDLE_SECONDS

    @classmethod
    def bounded(cls, most: int, idle_seconds: float) -> type[Line]:
        """The same, for a server that keeps so many, so long."""
        return type("BoundedLine", (cls,), {"most": most, "idle_seconds": idle_seconds})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        asked = self.app
        self._patience: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._followed = False
        #: since when it is waited for a head; None: a request is being answered
        self.waiting: float | None = None
        self._wait()
        if len(self.connections) > self.most:
            self._make_room()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            self._begun()
            scope["manydesks.abort"] = transport.abort
            scope["manydesks.followed"] = self._follow
            scope["manydesks.unsent"] = self._unsent
            cycle = self.cycle
            try:
                await asked(scope, receive, send)
            except asyncio.CancelledError:
                # the office closes, and this has not come to its end in time: nobody's mistake, so no trace in the log
                cycle.disconnected = True
                transport.abort()

        self.app = app

    def connection_lost(self, exc: Exception | None) -> None:
        self._begun()
        self._read_on()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        # before what was sent ahead is looked at, which may be the next request
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """It does not read its answer. One that follows what happens has its own bound, for that is no answer."""
        super().pause_writing()
        if not self._followed and self._unread is None:
            self._unread = self.loop.call_later(self.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_on()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is upgraded here, and a stranger who asks for it is not worth a line in the log."""

    def send_400_response(self, msg: str) -> None:
        """In the shape of all errors; and not at all to one that was answered already."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps({"error": NOT_HTTP}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        events = (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body))
        for event in (*events, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _follow(self) -> None:
        self._followed = True

    def _unsent(self) -> int:
        """Bytes that the other machine has not taken: of ours, and, where the system tells, of those it sends."""
        ours = self.transport.get_write_buffer_size()
        line = self.transport.get_extra_info("socket")
        if line is None or line.fileno() < 0 or not hasattr(termios, "TIOCOUTQ"):
            return ours
        waiting = bytearray(4)
        fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, waiting)
        return ours + int.from_bytes(waiting, sys.byteorder)

    def _read_on(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait(self) -> None:
        self._begun()
        self._followed = False
        self.waiting = self.loop.time()
        # bytes that come do not begin it anew, as they do with the time between two requests
        self._patience = self.loop.call_later(self.idle_seconds, self._give_up)

    def _begun(self) -> None:
        self.waiting = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if self.waiting is not None:
            self.transport.abort()

    def _make_room(self) -> None:
        """Whoever has said nothing for longest goes; if all are being answered, it is the newcomer."""
        silent = [line for line in self.connections if isinstance(line, Line) and line.waiting is not None]
        # the newcomer waits too, and for the shortest time
        first = min(silent, key=lambda line: line.waiting or 0.0)
        first._begun()  # it is gone a moment later, and is not to be chosen twice
        first.transport.abort()
