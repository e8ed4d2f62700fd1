"""`GET /api/events/stream`: server-sent events, spoken to the server itself, since each write counts a hundredfold."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import Response

from manydesks.api.follower import Follower, Wanted
from manydesks.api.history import HEADER
from manydesks.api.hub import Hub
from manydesks.domain.errors import BadInput, LedgerPruned

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

KEEP_ALIVE_SECONDS = 15.0
#: how long a browser waits before it connects again, in milliseconds
RETRY = 1000
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
_NUMBER = re.compile(r"[0-9]{1,18}")


async def begin(
    hub: Hub, *, last: str | None, after: int | None, wanted: Wanted, followed: str | None = None
) -> Follower:
    """Whoever wants to follow, placed where it left off. Raises `LedgerPruned`, or `BadInput` for a place that the
    ledger does not have. `followed`: the history that it has followed so far; None: it does not say."""
    if last is not None and _NUMBER.fullmatch(last) is None:
        raise BadInput("'Last-Event-ID' is the id of an event: a whole number from 0.")
    # the header wins: a browser repeats the first address with every new connection, and the header grows
    place = int(last) if last is not None else after
    head, first, history = await hub.bounds()
    if place is None:
        return Follower(wanted, head, history=history)
    if followed is not None and followed != history:
        await hub.check_history(followed, place)
    if place > head:
        raise BadInput(f"The ledger ends at event {head}, so nothing can be resumed from {place}.")
    if place < first - 1:
        raise LedgerPruned(first=first)
    return Follower(wanted, place, history=history)


class Stream(Response):
    """The response, which writes by itself as long as somebody reads it."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, follower: Follower, *, everybody: Callable[[], bool]) -> None:
        """`everybody`: whether the office asks nobody for a login, at this moment."""
        self.status_code = 200
        self.background = None
        self._hub = hub
        self._follower = follower
        self._everybody = everybody

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub, follower = self._hub, self._follower
        me = asyncio.current_task()
        assert me is not None
        cutting = False

        def cut() -> None:
            nonlocal cutting
            cutting = True
            abort = scope.get("manydesks.abort")
            if abort is not None:
                abort()  # closing in good order would wait for a client that reads nothing
            me.cancel()

        follower.cut = cut
        follower.unsent = scope.get("manydesks.unsent", follower.unsent)
        # none was asked for: it counts as long as none is
        login = scope.get("manydesks.admitted", lambda: False)
        follower.admitted = lambda: self._everybody() or login()
        if (followed := scope.get("manydesks.followed")) is not None:
            followed()
        gone = asyncio.create_task(_until_gone(receive, me))
        try:
            await hub.join(follower)
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        *HEADERS,
                        (b"last-event-id", str(follower.cursor).encode()),
                        (HEADER.lower().encode(), follower.history.encode()),
                    ],
                }
            )
            hello = f"retry: {RETRY}\nid: {follower.cursor}\n\n".encode()
            await send({"type": "http.response.body", "body": hello, "more_body": True})
            # a page that was pruned while it was being sent: the connection ends, and the next one is told
            with contextlib.suppress(LedgerPruned):
                await self._follow(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not (cutting or gone.done()):
                raise
        finally:
            hub.leave(follower)
            gone.cancel()

    async def _follow(self, send: Send) -> None:
        hub, follower = self._hub, self._follower
        now = asyncio.get_running_loop().time
        said = now()
        while not self._is_over():
            turn = hub.next_turn
            data = hub.chunk(follower)
            if data is None:
                data = await hub.page(follower)
                if self._is_over():
                    return
                behind = True
            else:
                behind = follower.cursor < hub.head
            data += hub.heard(follower)
            if not data and now() - said >= KEEP_ALIVE_SECONDS:
                # with its place: what it does not want to see has passed, and is nothing to resume from
                data = f": keep-alive\nid: {follower.cursor}\n\n".encode()
            if data:
                follower.sending = True
                try:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                finally:
                    follower.sending = False
                said = now()
                data = b""  # what it was sent is not kept while it waits for more
            if behind:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(said + KEEP_ALIVE_SECONDS):
                    await turn.wait()

    def _is_over(self) -> bool:
        return self._hub.closed or self._follower.dismissed


async def _until_gone(receive: Receive, task: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()
