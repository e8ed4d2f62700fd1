"""One request on its way to an upstream and back."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import httpx

from manydesks.proxy.dialect import Route
from manydesks.proxy.gate import Outcome
from manydesks.proxy.headers import to_desk
from manydesks.proxy.limits import Limits
from manydesks.proxy.line import Line
from manydesks.proxy.mask import Mask
from manydesks.proxy.pools import Pools
from manydesks.proxy.refusal import LineCut, Refused
from manydesks.proxy.upstream import Upstream
from manydesks.proxy.usage import Meter

#: what httpx undoes by itself; it was asked for none of it
_DECODED = frozenset({"gzip", "deflate"})


class Body(httpx.AsyncByteStream):
    """The desk's body, read only as fast as the upstream takes it.

    A class, not a generator: an upstream that answers early leaves it half read, with nothing to clean up.
    """

    def __init__(self, line: Line, most: int) -> None:
        self._line = line
        self._most = most
        self.bytes = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._line.body()
        if not piece:
            raise StopAsyncIteration
        self.bytes += len(piece)
        if self.bytes > self._most:
            raise Refused(413, "too_large", f"The request has more than the {self._most} bytes that are forwarded.")
        return piece


class UpstreamCall:
    """Forwards, and hands the answer on as it comes. `settled` is called once, however it ended, with what it saw."""

    def __init__(
        self,
        line: Line,
        upstream: Upstream,
        route: Route,
        *,
        key: str | None,
        limits: Limits,
        settled: Callable[[UpstreamCall], None],
    ) -> None:
        self._line = line
        self._upstream = upstream
        self._route = route
        self._mask = Mask(key)
        self._limits = limits
        self._settled = settled
        self.outcome: Outcome | None = None
        self.status: int | None = None
        self.meter: Meter | None = None
        self.body = Body(line, limits.body_bytes)
        self.received_bytes = 0

    async def run(self, pools: Pools, url: str, headers: list[tuple[str, str]]) -> None:
        """Raises `Refused` as long as the desk has not been answered, and `LineCut` afterwards."""
        try:
            request = httpx.Request(self._route.method, url, headers=headers, stream=await self._content())
            answer = await pools.send(self._upstream, request)
            try:
                await self._hand_on(answer)
            finally:
                await answer.aclose()
        except Refused:
            self._settle("refused")
            raise
        except LineCut:
            self._settle("desk_left")
            raise
        except httpx.HTTPError as error:
            self._settle("upstream_failed")
            if self._line.answering:
                # the head is out: only a broken line can still say that this is not the whole answer
                raise LineCut(f"the upstream broke off ({type(error).__name__})") from None
            raise self._failed(error) from None  # the error's own words may hold the key
        finally:
            # cancelled, unless it was settled before
            self._settle("desk_left" if self._line.gone else "closed")

    def _settle(self, outcome: Outcome) -> None:
        """Once, before the desk can see the end: its next call finds the books up to date."""
        if self.outcome is None:
            self.outcome = outcome
            self._settled(self)

    async def _content(self) -> httpx.AsyncByteStream:
        if self._route.method == "POST":
            return self.body
        await self._line.body()  # it has none; this reads its end
        return httpx.ByteStream(b"")

    async def _hand_on(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        encoding = answer.headers.get("content-encoding", "identity").strip().lower()
        self._check(answer.status_code, encoding)
        if self._route.wire is not None and answer.status_code == 200:
            streamed = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
            self.meter = Meter(self._route.wire, streamed=streamed)
        whole = encoding == "identity"
        length = int(answer.headers["content-length"]) if whole and "content-length" in answer.headers else None
        await self._line.head(answer.status_code, to_desk(answer.headers.raw, self._upstream, self._mask, whole=whole))
        stream = answer.aiter_bytes()
        assert isinstance(stream, AsyncGenerator)
        async with contextlib.aclosing(stream) as pieces:
            async for piece in pieces:
                self.received_bytes += len(piece)
                if self.meter is not None:
                    self.meter.feed(piece)
                if self.received_bytes == length:
                    self._settle("answered")
                await self._line.data(self._mask.feed(piece))
        self._settle("answered")
        await self._line.data(self._mask.finish())
        await self._line.end()

    def _check(self, status: int, encoding: str) -> None:
        name = self._upstream.name
        if status == 401:
            # its own words may show a part of the key
            key = self._upstream.key
            wanted = f"set it anew: `manydesks secret set {key}`" if key else "name the secret that holds one"
            raise Refused(401, "key_refused", f"The upstream '{name}' does not accept the office's key; {wanted}.")
        if 300 <= status < 400:
            words = f"The upstream '{name}' points to another address, which is not followed; check its base_url."
            raise Refused(502, "redirected", words)
        if encoding != "identity" and encoding not in _DECODED:
            raise Refused(502, "bad_answer", f"The upstream '{name}' answered in an encoding that was not asked for.")

    def _failed(self, error: httpx.HTTPError) -> Refused:
        name = self._upstream.name
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            seconds = f"{self._limits.connect_seconds:g}"
            return Refused(504, "unreachable", f"The upstream '{name}' could not be reached within {seconds} s.")
        if isinstance(error, httpx.TimeoutException):
            seconds = f"{self._limits.upstream_seconds:g}"
            return Refused(504, "upstream_silent", f"The upstream '{name}' did not answer within {seconds} s.")
        if isinstance(error, httpx.ConnectError):
            why = "its certificate is not trusted" if _untrusted(error) else "there is no connection"
            return Refused(502, "unreachable", f"The upstream '{name}' cannot be reached: {why}.")
        return Refused(502, "upstream_failed", f"The upstream '{name}' broke off before it answered.")


def _untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
