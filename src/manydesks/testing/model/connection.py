"""One client's connection: HTTP/1.1 by h11, requests one after the other."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import h11

from manydesks.testing.model.plan import STATUS_LINE, Plan
from manydesks.testing.model.record import How

CHUNK = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """A request as it came in."""

    method: str
    #: with the query
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Answering(Protocol):
    """What a connection needs to know of its server."""

    def plan(self, heard: Heard) -> tuple[int, Plan]:
        """The request's number, and what to write."""

    def ended(self, number: int, how: How) -> None: ...

    async def stand(self, ping: Callable[[], Any], seconds: float | None) -> None:
        """Return when answers that stand still are released; `ping` is called every so many seconds."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Answering) -> None:
        self._reader = reader
        self._writer = writer
        self._server = server
        self._http = h11.Connection(h11.SERVER)
        # `drain` then waits until all is out, so that what was sent before a cut is really sent.
        writer.transport.set_write_buffer_limits(high=0)

    async def serve(self) -> None:
        """Return when the connection has ended, by whomever."""
        try:
            while (heard := await self._listen()) is not None:
                number, plan = self._server.plan(heard)
                how: How = "closed"
                try:
                    how = await self._tell(plan)
                finally:
                    self._server.ended(number, how)
                if how != "whole" or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
        except (ConnectionError, h11.RemoteProtocolError):
            return
        finally:
            self._writer.close()
            with suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _listen(self) -> Heard | None:
        """The next request, whole; None if there is none."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            match event:
                case h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        self._write(h11.InformationalResponse(status_code=100, headers=[]))
                    self._http.receive_data(await self._reader.read(CHUNK))
                case h11.Request():
                    request = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage() if request is not None:
                    headers = {name.decode().lower(): value.decode("latin-1") for name, value in request.headers}
                    method, target = request.method.decode(), request.target.decode("latin-1")
                    return Heard(method=method, target=target, headers=headers, body=bytes(body))
                case _:
                    return None

    async def _tell(self, plan: Plan) -> How:
        """Write what is planned, unless the client goes away first."""
        sending = asyncio.create_task(self._send(plan))
        leaving = asyncio.create_task(self._client_leaves())
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            return sending.result() if sending.done() else "left"
        except ConnectionError:
            return "left"
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _client_leaves(self) -> None:
        with suppress(ConnectionError):
            while early := await self._reader.read(CHUNK):
                self._http.receive_data(early)

    async def _send(self, plan: Plan) -> How:
        if plan.delay:
            await asyncio.sleep(plan.delay)
        if plan.stands_before == STATUS_LINE:
            await self._server.stand(lambda: None, None)
        if plan.head:
            framing = ("transfer-encoding", "chunked") if plan.length is None else ("content-length", str(plan.length))
            self._write(h11.Response(status_code=plan.status, headers=[*plan.headers, framing]))
            await self._writer.drain()
        for number, piece in enumerate(plan.pieces):
            if number == plan.stands_before:
                await self._stand(plan)
            await self._send_piece(piece, plan)
        if plan.stands_before is not None and plan.stands_before >= len(plan.pieces):
            await self._stand(plan)
        if plan.ends != "whole":
            self._break_off(reset=plan.ends == "reset")
            return "cut"
        self._write(h11.EndOfMessage())
        await self._writer.drain()
        return "whole"

    async def _stand(self, plan: Plan) -> None:
        await self._server.stand(lambda: self._write(h11.Data(data=plan.ping)), plan.ping_seconds)

    async def _send_piece(self, piece: bytes, plan: Plan) -> None:
        size = plan.pace.bytes if plan.pace is not None else len(piece) or 1
        for start in range(0, len(piece), size):
            if plan.pace is not None:
                await asyncio.sleep(plan.pace.seconds)
            self._write(h11.Data(data=piece[start : start + size]))
            await self._writer.drain()

    def _write(self, event: h11.Event) -> None:
        self._writer.write(self._http.send(event) or b"")

    def _break_off(self, *, reset: bool) -> None:
        if reset:
            end = self._writer.get_extra_info("socket")
            # To linger for 0 s is to send a reset.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        else:
            self._writer.close()
