"""One connection to the tool server: HTTP/1.1 by h11, requests one after the other, every size and wait bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h11

BODY_BYTES = 4 << 20
HEAD_BYTES = 32 << 10
READ_BYTES = 64 << 10
#: a connection without a request, as clients keep them
IDLE_SECONDS = 600.0
#: a request, from its first byte to its last
REQUEST_SECONDS = 30.0

#: after a refusal
LINGER_SECONDS = 1.0

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    method: str
    path: str
    #: names in lower case; of several with one name the last
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Refused(Exception):
    """A request that cannot be read; the connection ends with the answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Reply:
    """The answer to one request: all at once, or as a stream of events."""

    def __init__(self, http: h11.Connection, writer: asyncio.StreamWriter) -> None:
        self._http = http
        self._writer = writer

    async def json(self, status: int, value: Any, headers: Headers = ()) -> None:
        body = json.dumps(value).encode()
        kind = ("content-type", "application/json")
        await self._send(h11.Response(status_code=status, headers=[kind, *headers, ("content-length", str(len(body)))]))
        await self._send(h11.Data(data=body), h11.EndOfMessage())

    async def empty(self, status: int, headers: Headers = ()) -> None:
        length = [] if status == 204 else [("content-length", "0")]
        await self._send(h11.Response(status_code=status, headers=[*headers, *length]), h11.EndOfMessage())

    async def stream(self, headers: Headers = ()) -> None:
        """From now on `event`, `comment` and `end`."""
        kind = [("content-type", "text/event-stream"), ("cache-control", "no-store")]
        await self._send(h11.Response(status_code=200, headers=[*kind, *headers, ("transfer-encoding", "chunked")]))

    async def event(self, value: Any) -> None:
        await self._send(h11.Data(data=b"event: message\ndata: " + json.dumps(value).encode() + b"\n\n"))

    async def comment(self) -> None:
        """Nothing, so that nobody on the way takes the stream for dead."""
        await self._send(h11.Data(data=b": at work\n\n"))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        for event in events:
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()


Answer = Callable[[Request, Reply], Awaitable[None]]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Until the client is done. An answer that the client does not wait for is cancelled."""
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
    try:
        while True:
            reply = Reply(http, writer)
            try:
                request = await _listen(reader, writer, http)
            except Refused as refused:
                await reply.json(refused.status, {"error": str(refused)}, [("connection", "close")])
                await _linger(reader)
                return
            if request is None or not await _answered(reader, http, answer(request, reply)):
                return
            if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                return
            http.start_next_cycle()
    except (ConnectionError, h11.ProtocolError, TimeoutError):
        return
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, http: h11.Connection) -> Request | None:
    """The next request, whole; None: there is none."""
    head: h11.Request | None = None
    body = bytearray()
    loop = asyncio.get_running_loop()
    deadline: float | None = None
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            raise Refused(error.error_status_hint, "That is no HTTP request, or its head is too long.") from None
        if event is h11.NEED_DATA:
            if http.they_are_waiting_for_100_continue:
                writer.write(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            if deadline is None and (head is not None or http.trailing_data[0]):
                deadline = loop.time() + REQUEST_SECONDS
            try:
                async with asyncio.timeout_at(deadline or loop.time() + IDLE_SECONDS):
                    http.receive_data(await reader.read(READ_BYTES))
            except TimeoutError:
                if deadline is None:
                    return None
                raise Refused(408, "The request did not arrive in time.") from None
        elif isinstance(event, h11.Request):
            head = event
            length = dict(head.headers).get(b"content-length", b"0")
            if len(length) > 12 or int(length) > BODY_BYTES:
                raise Refused(413, f"A body has at most {BODY_BYTES} bytes.")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_BYTES:
                raise Refused(413, f"A body has at most {BODY_BYTES} bytes.")
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}
            method, path = head.method.decode("latin-1"), head.target.decode("latin-1")
            return Request(method=method, path=path, headers=headers, body=bytes(body))
        else:
            return None


async def _linger(reader: asyncio.StreamReader) -> None:
    """A line that is cut while the other side still writes loses the answer too: a little more is read, unseen."""
    left = 2 * BODY_BYTES
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0 and (piece := await reader.read(READ_BYTES)):
                left -= len(piece)


async def _answered(reader: asyncio.StreamReader, http: h11.Connection, answering: Awaitable[None]) -> bool:
    """False: the client went away before it had its answer."""
    work = asyncio.ensure_future(answering)
    leaving = asyncio.create_task(_leaves(reader, http))
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            return True
        return False
    finally:
        work.cancel()
        leaving.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)


async def _leaves(reader: asyncio.StreamReader, http: h11.Connection) -> None:
    """Until the other side hangs up; what it sends ahead is kept for the next request, up to a bound."""
    ahead = 0
    with suppress(ConnectionError):
        while early := await reader.read(READ_BYTES):
            http.receive_data(early)
            ahead += len(early)
            if ahead > READ_BYTES:
                return
