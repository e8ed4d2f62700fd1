"""The client for coroutines: the same verbs as the one that blocks."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from manydesks.client import calls
from manydesks.client.calls import AGAIN_SECONDS, NO_ANSWER, POLL_SECONDS, Call, Lines
from manydesks.client.place import place_of
from manydesks.client.tries import TRIES, pauses
from manydesks.client.values import Event, Sent
from manydesks.domain.errors import Duplicate, OfficeError


class AsyncClient:
    """An office, over HTTP, for coroutines.

    Raises `OfficeError` when the office does not answer, `ApiRefused` (with its `status`) when it refuses, `Duplicate`
    for a message id that it knows, and `LedgerPruned` when what is to be followed is no longer kept.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        home: str | Path | None = None,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        """The office at `url` with `token`; what is not given is taken from this machine's own (`home`)."""
        place = place_of(url, token, home)
        self.url = place.url
        headers = {"Authorization": f"Bearer {place.token}"} if place.token is not None else {}
        # nothing of the environment: a proxy between here and this machine's own office helps nobody
        self._http = httpx.AsyncClient(base_url=place.url, headers=headers, verify=verify, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(self, call: Call) -> Any:
        """Any route of the API: the JSON that it answers."""
        try:
            response = await self._http.request(
                call.method,
                call.path,
                params=dict(call.params),
                # what changes something is JSON, also with nothing to say
                json=call.body if call.body is not None else ({} if call.method in ("POST", "PUT") else None),
                timeout=call.seconds,
            )
        except NO_ANSWER as error:
            raise calls.lost(self.url, error) from error
        return calls.value_of(response)

    async def send(
        self,
        message: str,
        *,
        agent: str | None = None,
        sender: str | None = None,
        sender_id: str | None = None,
        channel: str | None = None,
        message_id: str | None = None,
        priority: int = 0,
        not_before: int | None = None,
        files: Iterable[str | Path] = (),
        tries: int = TRIES,
    ) -> Sent:
        """Hand in a message; it is stored, once, when this returns, also if the office was restarted meanwhile."""
        call = calls.sending(
            message,
            agent=agent,
            sender=sender,
            sender_id=sender_id,
            channel=channel,
            message_id=message_id,
            priority=priority,
            not_before=not_before,
            files=files,
        )
        asked_before = False
        for pause in pauses(tries):
            try:
                return calls.sent(call, await self.request(call))
            except Duplicate as known:
                if not asked_before:
                    raise
                return calls.sent_before(await self.message(str(known.details["message"])))
            except OfficeError:
                if pause is None:
                    raise
                asked_before = True
                await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def message(self, id: str) -> dict[str, Any]:
        """How a message stands, and its answers."""
        found: dict[str, Any] = await self.request(calls.message(id))
        return found

    async def wait(self, id: str, seconds: float = 600.0) -> dict[str, Any]:
        """The message once it has ended, or as it is when the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            left = min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))
            try:
                found: dict[str, Any] = await self.request(calls.message(id, round(left, 3)))
            except OfficeError:
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(AGAIN_SECONDS[-2])
                continue
            if found["status"] in calls.ENDED or time.monotonic() >= deadline:
                return found

    async def ask(self, message: str, *, seconds: float = 600.0, **about: Any) -> str:
        """Send, wait, and return the words of the answer. Takes what `send` takes."""
        return calls.text_of(await self.wait((await self.send(message, **about)).message_id, seconds))

    async def follow(
        self,
        *,
        after: int | None = None,
        types: Sequence[str] | None = None,
        agent: str | None = None,
        trace: str | None = None,
        live: bool = False,
    ) -> AsyncIterator[Event]:
        """Events as they happen, each once and in order, for ever: a lost connection is taken up where it broke.

        `after`: from behind that event; without it, from now. `live`: also what runs are saying just now, which has no
        `seq` and is not repeated.
        """
        call = calls.following(types, agent, trace)
        last, tried = after, 0
        while True:
            headers = {"Last-Event-ID": str(last)} if last is not None else {}
            try:
                async with self._http.stream(
                    call.method, call.path, params=dict(call.params), headers=headers, timeout=call.seconds
                ) as response:
                    if not response.is_success:
                        await response.aread()
                        if response.status_code < 500:
                            calls.value_of(response)
                    else:
                        if last is None:
                            # whoever has seen nothing yet resumes from where this began
                            last = int(response.headers.get("Last-Event-ID", 0)) or None
                        lines, tried = Lines(), 0
                        async for line in response.aiter_lines():
                            event = lines.take(line)
                            if event is None:
                                continue
                            if event.seq is not None:
                                last = event.seq
                            if live or event.seq is not None:
                                yield event
            except NO_ANSWER:
                pass  # as below
            await asyncio.sleep(AGAIN_SECONDS[min(tried, len(AGAIN_SECONDS) - 1)])
            tried += 1

    async def dead(self, *, agent: str | None = None, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Dead letters above a number, oldest first."""
        found: list[dict[str, Any]] = await self.request(calls.dead(agent, after, limit))
        return found

    async def retry(self, id: int | str, message: str | None = None) -> None:
        """A dead message gets new attempts, with another text if one is given."""
        await self.request(calls.retry(id, message))

    async def drop(self, id: int | str) -> None:
        """A dead message is given up."""
        await self.request(calls.drop(id))

    async def status(self) -> dict[str, Any]:
        """How the office is."""
        found: dict[str, Any] = await self.request(Call(method="GET", path="/api/status"))
        return found
