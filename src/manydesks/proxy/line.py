"""One connection from a desk, as HTTP/1.1: requests in, answers out, with time limits and without large buffers."""

from __future__ import annotations

import asyncio
import contextlib

import h11

from manydesks.proxy.limits import Limits
from manydesks.proxy.refusal import Answer, LineCut, Refused

#: one read; also the longest piece that is parsed without letting others have their turn
READ_BYTES = 32 * 1024
#: what a desk may send ahead while it waits for an answer; beyond this nobody looks whether it is still there
AHEAD_BYTES = 64 * 1024

_Incoming = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class Line:
    """Used by one task, but for `left`, which another one may await once the request's body has been read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        self._body_read = asyncio.Event()
        #: the head of an answer is on its way: it is too late for another one
        self.answering = False
        #: the desk has hung up while it waited
        self.gone = False
        self._refused = False
        #: nothing more will come from the desk
        self._ended = False

    async def request(self) -> h11.Request | None:
        """The next request's head; None if the desk is done. Raises `Refused` for what is no HTTP, `LineCut`."""
        deadline: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            event = self._next_event()
            if isinstance(event, h11.Request):
                size = len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers)
                if size > self._limits.head_bytes:
                    raise _too_long(self._limits)
                return event
            if isinstance(event, h11.ConnectionClosed):
                return None
            if deadline is None and self._http.trailing_data[0]:
                deadline = loop.time() + self._limits.head_seconds
            try:
                async with asyncio.timeout_at(deadline or loop.time() + self._limits.idle_seconds):
                    await self._receive()
            except TimeoutError:
                if deadline is None:
                    return None
                raise Refused(408, "too_slow", "The head of the request did not arrive in time.") from None

    async def body(self) -> bytes:
        """The next piece of the request's body, b"" at its end. Raises `Refused` for what is no HTTP, `LineCut`."""
        if self._http.they_are_waiting_for_100_continue:
            await self._write(h11.InformationalResponse(status_code=100, headers=[]))
        pieces: list[bytes] = []
        while not self._body_read.is_set():
            event = self._next_event()
            if isinstance(event, h11.Data):
                # joined: a desk that sends single bytes must not make the host send single bytes
                pieces.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._body_read.set()
            else:  # NEED_DATA
                if pieces:
                    break
                try:
                    async with asyncio.timeout(self._limits.desk_seconds):
                        await self._receive()
                except TimeoutError:
                    raise Refused(408, "too_slow", "The body of the request did not arrive in time.") from None
        return b"".join(pieces)

    async def left(self) -> None:
        """Returns when the desk hangs up. Not before the request's body was read, and never if it sends a lot ahead."""
        await self._body_read.wait()
        ahead = 0
        while ahead < AHEAD_BYTES:
            try:
                data = await self._reader_read()
            except LineCut:
                data = b""
            self._http.receive_data(data)
            if not data:
                self.gone = True
                return
            ahead += len(data)
        await asyncio.Event().wait()

    async def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin an answer; without a content-length it goes out in chunks."""
        self.answering = True
        await self._write(h11.Response(status_code=status, headers=headers))

    async def data(self, data: bytes) -> None:
        if data:
            await self._write(h11.Data(data=data))

    async def end(self) -> None:
        await self._write(h11.EndOfMessage())

    async def refuse(self, answer: Answer, *, bodiless: bool) -> None:
        """Answer by ourselves, as the last thing on this line. `bodiless`: it was a HEAD request."""
        self._refused = True
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in answer.headers]
        await self.head(answer.status, headers)
        if not bodiless:
            await self.data(answer.body)
        await self.end()

    def reuse(self) -> bool:
        """Get ready for the next request; False if there can be none."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._body_read.clear()
        self.answering = False
        return True

    async def close(self) -> None:
        """Hang up. After a refusal the rest of a body is thrown away for a while: the desk may still be sending, and
        would find a broken line instead of the reason."""
        if self._refused:
            with contextlib.suppress(TimeoutError, OSError, LineCut):
                async with asyncio.timeout(self._limits.linger_seconds):
                    self._writer.write_eof()
                    while await self._reader_read():
                        pass
        self.drop()

    def drop(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()

    def _next_event(self) -> _Incoming:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            if self._ended:
                raise LineCut("the desk left in the middle of a request") from None
            if error.error_status_hint == 431:
                raise _too_long(self._limits) from None
            raise Refused(400, "bad_request", "The request is not valid HTTP/1.1.") from None

    async def _receive(self) -> None:
        data = await self._reader_read()
        self._ended = not data
        self._http.receive_data(data)
        # a read that finds data does not wait, and a desk can always have data
        await asyncio.sleep(0)

    async def _reader_read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except ConnectionError as error:
            raise LineCut("the desk broke the line") from error

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if not data:
            return
        try:
            self._writer.write(data)
            async with asyncio.timeout(self._limits.desk_seconds):
                await self._writer.drain()
        except TimeoutError:
            raise LineCut("the desk does not take its answer") from None
        except ConnectionError as error:
            raise LineCut("the desk left before the end of its answer") from error


def _too_long(limits: Limits) -> Refused:
    return Refused(431, "head_too_large", f"The head of a request has at most {limits.head_bytes} bytes.")
