"""The way to the model: HTTP over the office's Unix socket for this session, which adds the key. No key is here."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator

import httpx

from manydesks.domain.clock import Clock
from manydesks.runner.providers.base import Endpoint, Usage
from manydesks.runner.providers.http_api.failure import CallFailed, from_answer, permanent, transient
from manydesks.runner.providers.http_api.sse import Events, LineTooLong
from manydesks.runner.providers.http_api.wire import Reader, Reply, Wire

#: seconds to reach the office's door, and for it to take a piece of a request
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0
#: below the proxy's own patience with a connection that does nothing
KEEPALIVE_SECONDS = 60.0
#: seconds for a stream to end in good order once the answer is complete
GRACE_SECONDS = 2.0
#: of an answer with an error, so much is read
MAX_ERROR = 64 * 1024
#: bytes of an answer
MAX_ANSWER = 64 << 20


class Line:
    """One session's connection. What goes wrong is raised as `CallFailed`; leaving a call early closes its
    connection at once."""

    def __init__(self, endpoint: Endpoint, *, idle_seconds: float, clock: Clock) -> None:
        self._endpoint = endpoint
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._client = httpx.AsyncClient(
            # a context without certificates: there is no TLS on this socket, and reading them takes longer than a call
            transport=httpx.AsyncHTTPTransport(
                uds=str(endpoint.socket),
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                limits=httpx.Limits(keepalive_expiry=KEEPALIVE_SECONDS),
            ),
            timeout=httpx.Timeout(CONNECT_SECONDS, read=idle_seconds, write=WRITE_SECONDS),
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, wire: Wire, body: bytes) -> AsyncGenerator[str | Reply, None]:
        """The words as they come, and the whole reply at the end."""
        reader = wire.reader()
        try:
            async with self._client.stream(
                "POST",
                f"http://desk{self._endpoint.prefix}{wire.path}",
                content=body,
                headers={"content-type": "application/json", "accept-encoding": "identity", **wire.headers},
            ) as answer:
                if answer.status_code != 200:
                    raise await self._refused(answer)
                pieces = answer.aiter_bytes()
                if answer.headers.get("content-type", "").startswith("application/json"):
                    reader.whole(await _whole(pieces))
                else:
                    async for words in _streamed(pieces, reader):
                        yield words
            yield reader.reply()
        except CallFailed as failed:
            failed.usage = failed.usage or reader.usage()
            raise
        except httpx.RequestError as error:
            raise self._broken(error, reader.usage()) from error

    async def _refused(self, answer: httpx.Response) -> CallFailed:
        body = bytearray()
        # whatever arrives of the words; the status is the message
        with contextlib.suppress(httpx.RequestError):
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MAX_ERROR:
                    break
        words = body[:MAX_ERROR].decode(errors="replace")
        return from_answer(answer.status_code, answer.headers, words, now_ms=self._clock.now())

    def _broken(self, error: httpx.RequestError, usage: Usage | None) -> CallFailed:
        match error:
            case httpx.ReadTimeout():
                reason = f"the model server said nothing for {self._idle_seconds:g} s"
            case httpx.ConnectError() | httpx.ConnectTimeout():
                reason = f"the office's door to the model cannot be reached ({_words(error)})"
            case _:
                reason = f"the connection to the model server broke off ({_words(error)})"
        return CallFailed("transient", reason, usage=usage)


def _words(error: httpx.RequestError) -> str:
    return str(error) or type(error).__name__


async def _streamed(pieces: AsyncIterator[bytes], reader: Reader) -> AsyncGenerator[str, None]:
    events, size = Events(), 0
    async for piece in pieces:
        size += len(piece)
        if size > MAX_ANSWER:
            raise permanent(f"the model's answer is longer than {MAX_ANSWER} bytes")
        try:
            words = "".join([reader.feed(data) for data in events.feed(piece) if not reader.done])
        except LineTooLong:
            raise transient("the model server sent an event without an end") from None
        if words:
            yield words
        if reader.done:
            await _drain(pieces)
            return


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """To the end of the stream, so that the connection can be used again and the call counts as answered. The answer
    is complete: nothing that happens now can spoil it."""
    with contextlib.suppress(TimeoutError, httpx.RequestError):
        async with asyncio.timeout(GRACE_SECONDS):
            async for _ in pieces:
                pass


async def _whole(pieces: AsyncIterator[bytes]) -> str:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > MAX_ANSWER:
            raise permanent(f"the model's answer is longer than {MAX_ANSWER} bytes")
    return body.decode(errors="replace")
