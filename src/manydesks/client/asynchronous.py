"""The client for coroutines: the same verbs as the one that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx

from manydesks.client import calls
from manydesks.client.calls import AGAIN_SECONDS, NO_ANSWER, POLL_SECONDS, Call
from manydesks.client.place import Place, place_of
from manydesks.client.stream import Cut, Lines
from manydesks.client.tries import TRIES, pauses
from manydesks.client.values import Event, Sent
from manydesks.domain.errors import ApiRefused, Duplicate, OfficeError, SettingsError


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
        """The office at `url` with its `token`; without `url` the open one of this machine (`home`) is asked where it
        is, which blocks for a moment, and asked again when it does not answer there any more.

        An office of this machine with a certificate of its own is known by it; `verify` is for others.
        """
        self._find = None if url is not None else partial(place_of, None, token, home)
        place = place_of(url, token, home)
        if verify is True and place.trust is not None:
            verify = place.trust
        # nothing of the environment: a proxy between here and this machine's own office helps nobody
        self._http = httpx.AsyncClient(verify=verify, trust_env=False)
        self._go_to(place)

    def _go_to(self, place: Place) -> None:
        self.url, self._home = place.url, place.home
        self._http.base_url = place.url
        self._http.headers.pop("Authorization", None)
        if place.token:
            self._http.headers["Authorization"] = f"Bearer {place.token}"

    async def _look_again(self) -> None:
        """An office that was opened again may be at another port."""
        if self._find is None:
            return
        # none is open just now, or its settings are being written: it is tried again where it was
        with contextlib.suppress(OfficeError, SettingsError):
            self._go_to(await asyncio.to_thread(self._find))

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
            lost = calls.lost(self.url, error)
            await self._look_again()
            raise lost from error
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
            home=self._home,
        )
        asked_before = False
        for pause in pauses(tries):
            try:
                return calls.sent(call, await self.request(call))
            except Duplicate as known:
                if not asked_before:
                    raise
                id = str(known.details["message"])
                return calls.sent_before(id, await self.request(calls.trace(id)))
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
        """Send, wait, and return the words of the answer. Takes what `send` takes.

        Several answers, hand-offs' among them, are separated by an empty line, in the order of their messages. They are
        acknowledged; if one does not come (`OfficeError`), none is, and those that came wait in `pending`.
        """
        deadline = time.monotonic() + seconds
        sent = await self.send(message, **about)
        ended: dict[str, dict[str, Any]] = {}
        # whoever answers may have handed something on
        while new := [id for id in await self._ids(sent, deadline) if id not in ended]:
            for id in new:
                ended[id] = await self.wait(id, max(0.0, deadline - time.monotonic()))
                calls.check_answered(ended[id])
        answers = calls.answers_of(ended.values())
        for answer in answers:
            try:
                await self._surely(calls.acknowledge(answer["id"]), deadline)
            except ApiRefused as refused:
                if not calls.is_settled(refused):
                    raise
        return calls.text_of(sent, answers)

    async def _ids(self, sent: Sent, deadline: float) -> list[str]:
        return calls.ids_of(await self._surely(calls.trace(sent.trace_id), deadline))

    async def _surely(self, call: Call, deadline: float) -> Any:
        """For what may be asked twice: again until there is an answer, or the time is over."""
        while True:
            try:
                return await self.request(call)
            except OfficeError:
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(AGAIN_SECONDS[-2])

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
                        if last is None and "Last-Event-ID" in response.headers:
                            # whoever has seen nothing yet resumes from where this began
                            last = int(response.headers["Last-Event-ID"])
                        cut, lines, tried = Cut(), Lines(live=live), 0
                        async for chunk in response.aiter_bytes():
                            for line in cut.lines(chunk):
                                event = lines.take(line)
                                # also behind what was not for us: some day it is no longer kept
                                last = lines.place if lines.place is not None else last
                                if event is not None:
                                    yield event
            except NO_ANSWER:
                await self._look_again()
            await asyncio.sleep(AGAIN_SECONDS[min(tried, len(AGAIN_SECONDS) - 1)])
            tried += 1

    async def pending(self, *, channel: str = "api", after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """Answers that wait for a client of the channel, above a number, oldest first; until they are acknowledged."""
        found: list[dict[str, Any]] = await self.request(calls.pending(channel, after, limit))
        return found

    async def acknowledge(self, id: int) -> None:
        """An answer has arrived, and waits no more; saying so again changes nothing."""
        await self.request(calls.acknowledge(id))

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
