"""The client for coroutines: the same verbs as the one that blocks."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx

from manydesks.client import calls, failure
from manydesks.client.calls import AGAIN_SECONDS, Call
from manydesks.client.failure import NO_ANSWER
from manydesks.client.following import Following
from manydesks.client.place import Place
from manydesks.client.tries import TRIES, Time, pauses
from manydesks.client.values import Event, Sent
from manydesks.client.way import LIMITS, Way
from manydesks.domain.errors import ApiRefused, Duplicate


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
        self._way = Way(url, token, home, verify)
        #: by the certificate that they trust; others may be in the middle of something when it changes
        self._lines: dict[str | None, httpx.AsyncClient] = {}
        self._closed = False
        self._line(self._way.place)

    @property
    def url(self) -> str:
        """Where the office is, or was when it last answered."""
        return self._way.place.url

    def _line(self, place: Place) -> httpx.AsyncClient:
        if self._closed:
            raise failure.closed()
        trusted = self._way.trusted(place)
        if trusted not in self._lines:
            # nothing of the environment: a proxy between here and this machine's own office helps nobody
            self._lines[trusted] = httpx.AsyncClient(verify=self._way.verify(trusted), trust_env=False, limits=LIMITS)
        return self._lines[trusted]

    async def _look_again(self, seconds: float = math.inf) -> None:
        if self._way.asks:
            await asyncio.to_thread(self._way.look_again, seconds)

    async def close(self) -> None:
        """Whatever is asked of it afterwards raises `OfficeError`."""
        self._closed = True
        for line in self._lines.values():
            await line.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(self, call: Call) -> Any:
        """Any route of the API: the JSON that it answers."""
        try:
            return await self._once(call)
        except NO_ANSWER as error:
            raise failure.lost(error) from error

    async def _once(self, call: Call, within: Time | None = None) -> Any:
        """Raises what `NO_ANSWER` names if none came, and it may be tried again."""
        within = within or Time()
        place = self._way.place
        try:
            response = await self._said(call, place, within)
            # 429 is also what many wrong tokens at once come to
            if response.status_code in (401, 429):
                await self._look_again(within.left())
                if self._way.place.token != place.token:
                    place = self._way.place
                    response = await self._said(call, place, within)
        except NO_ANSWER as error:
            if failure.is_hopeless(error) and not self._way.asks:
                raise failure.lost(error) from error
            await self._look_again(within.left())
            raise
        return calls.value_of(place.url, response)

    async def _said(self, call: Call, place: Place, within: Time) -> httpx.Response:
        try:
            async with asyncio.timeout(within.end()):
                return await self._line(place).request(
                    call.method,
                    place.url + call.path,
                    params=dict(call.params),
                    headers=place.headers(),
                    # what changes something is JSON, also with nothing to say
                    json=call.body if call.body is not None else ({} if call.method in ("POST", "PUT") else None),
                    timeout=within.timeout(call.seconds),
                )
        except TimeoutError as error:
            request = httpx.Request(call.method, place.url + call.path)
            raise httpx.ReadTimeout("the time is over", request=request) from error

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
            home=self._way.place.home,
        )
        return await self._send(call, tries, Time())

    async def _send(self, call: Call, tries: int, within: Time) -> Sent:
        perhaps = False
        for pause in pauses(tries):
            try:
                try:
                    return calls.sent(self.url, await self._once(call, within))
                except Duplicate as known:
                    if not perhaps:
                        raise
                    id = str(known.details["message"])
                    return calls.sent_before(id, await self._once(calls.trace(id), within))
            except NO_ANSWER as error:
                perhaps = perhaps or not isinstance(error, failure.NOT_ASKED)
                if pause is None or within.is_over():
                    raise failure.unsent(error, calls.id_of(call), perhaps=perhaps) from error
                await asyncio.sleep(within.left(pause))
        raise AssertionError("the last try returns or raises")

    async def message(self, id: str) -> dict[str, Any]:
        """How a message stands, and its answers."""
        return calls.found(self.url, await self.request(calls.message(id)))

    async def wait(self, id: str, seconds: float = 600.0) -> dict[str, Any]:
        """The message once it has ended, or as it is when the time is over; raises `OfficeError` if by then, or two
        seconds later, there is no answer."""
        try:
            return await self._wait(id, Time(seconds))
        except NO_ANSWER as error:
            raise failure.lost(error) from error

    async def _wait(self, id: str, within: Time) -> dict[str, Any]:
        while True:
            found = calls.waited(self.url, await self._surely(partial(calls.message, id), within))
            if found["status"] in calls.ENDED or within.is_over():
                return found

    async def ask(self, message: str, *, seconds: float = 600.0, tries: int = TRIES, **about: Any) -> str:
        """Send, wait, and return the words of the answer. Takes what `send` takes.

        Several answers, hand-offs' among them, are separated by an empty line, in the order of their messages. They are
        acknowledged; if one does not come (`OfficeError`), none is, and those that came wait in `pending`.

        All of it takes `seconds`, or two more, at most. If the office does not answer, the error says whether the
        message may have been stored, and its `details` have the id as `message`.
        """
        within = Time(seconds)
        sent = await self._send(calls.sending(message, home=self._way.place.home, **about), tries, within)
        try:
            ended: dict[str, dict[str, Any]] = {}
            # whoever answers may have handed something on
            while new := [id for id in await self._ids(sent, within) if id not in ended]:
                for id in new:
                    ended[id] = await self._wait(id, within)
                    calls.check_answered(ended[id])
            answers = calls.answers_of(ended.values())
            for answer in answers:
                await self._acknowledge(answer["id"], within)
        except NO_ANSWER as error:
            raise failure.unheard(error, sent.message_id) from error
        return calls.text_of(sent, answers)

    async def _ids(self, sent: Sent, within: Time) -> list[str]:
        return calls.ids_of(await self._surely(lambda _: calls.trace(sent.trace_id), within))

    async def _acknowledge(self, id: int, within: Time) -> None:
        try:
            await self._surely(lambda _: calls.acknowledge(id), within)
        except ApiRefused as refused:
            if not calls.is_settled(refused):
                raise

    async def _surely(self, call: Callable[[float], Call], within: Time) -> Any:
        """For what may be asked twice: again until there is an answer, or the time is over."""
        while True:
            try:
                return await self._once(call(within.poll()), within)
            except NO_ANSWER:
                if within.is_over():
                    raise
                await asyncio.sleep(within.left(AGAIN_SECONDS[-2]))

    def follow(
        self,
        *,
        after: int | None = None,
        types: Sequence[str] | None = None,
        agent: str | None = None,
        trace: str | None = None,
        live: bool = False,
        wait: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Events as they happen, each once and in order, for ever: a lost connection is taken up where it broke.

        `after`: from behind that event; without it, from now. `live`: also what runs are saying just now, which has no
        `seq` and is not repeated. `wait`: also for an office that is not there to begin with, which otherwise raises
        `OfficeError`; as does, at any time, whoever is there and is not the office.
        """
        call = calls.following(types, agent, trace)
        return self._events(call, Following(after=after, live=live, wait=wait, asks=self._way.asks))

    async def _events(self, call: Call, following: Following) -> AsyncGenerator[Event, None]:
        while True:
            place = self._way.place
            try:
                async with self._line(place).stream(
                    call.method,
                    place.url + call.path,
                    params={**call.params, **following.params()},
                    headers=place.headers() | following.headers(),
                    timeout=call.seconds,
                ) as response:
                    if response.is_success and following.begins(place.url, response):
                        async for chunk in response.aiter_bytes():
                            for event in following.take(chunk):
                                yield event
                    elif not response.is_success:
                        await response.aread()
                        if response.status_code == 401:
                            await self._look_again()
                            if self._way.place.token != place.token:
                                continue
                        following.refused(place.url, response)
            except NO_ANSWER as error:
                following.lost(error)
            await self._look_again()
            await asyncio.sleep(following.pause())

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
        return calls.found(self.url, await self.request(Call(method="GET", path="/api/status")))
