"""A desk's requests, one by one: checked, forwarded with the real key, and reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

import h11

from manydesks.domain.clock import Clock
from manydesks.domain.errors import ManyDesksError
from manydesks.proxy.call import UpstreamCall
from manydesks.proxy.dialect import Dialect, Route
from manydesks.proxy.gate import Call, Gate
from manydesks.proxy.headers import to_upstream
from manydesks.proxy.limits import Limits
from manydesks.proxy.line import Line
from manydesks.proxy.pools import Pools
from manydesks.proxy.refusal import LineCut, Refused, answer_to
from manydesks.proxy.target import body_length, passing_query, read_target
from manydesks.proxy.upstream import Upstream

log = logging.getLogger(__name__)

_INTERNAL = "The office's proxy failed; its log says more."


class Exchange:
    """Serves one session; which one was decided by the socket, and nothing in a request can change it."""

    def __init__(
        self, session: str, upstreams: Mapping[str, Upstream], *, gate: Gate, pools: Pools, limits: Limits, clock: Clock
    ) -> None:
        self._session = session
        self._upstreams = upstreams
        self._gate = gate
        self._pools = pools
        self._limits = limits
        self._clock = clock
        self._calls = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first request to its end."""
        line = Line(reader, writer, self._limits)
        try:
            while (request := await self._next(line)) is not None:
                await self._answer(line, request)
                if not line.reuse():
                    break
            await line.close()
        except LineCut as cut:
            log.info("A desk's line ended early: %s", cut, extra={"action": "line_cut", "session": self._session})
        finally:
            line.drop()

    async def _next(self, line: Line) -> h11.Request | None:
        try:
            return await line.request()
        except Refused as refused:
            await self._refuse(line, refused, None)
            return None

    async def _answer(self, line: Line, request: h11.Request) -> None:
        dialect: Dialect | None = None
        try:
            target = read_target(request.target)
            upstream = self._upstreams.get(target.upstream)
            if upstream is None:
                names = ", ".join(sorted(self._upstreams)) or "none"
                raise Refused(404, "not_open", f"This desk has no upstream of that name; it has: {names}.")
            dialect = upstream.dialect
            method = request.method.decode("ascii")
            route = upstream.route(method, target.path)
            if route is None:
                raise Refused(404, "not_open", f"{method[:20]} {target.path[:200] or '/'} is not open to desks.")
            length = body_length(
                request.headers, method=method, http_version=request.http_version, most=self._limits.body_bytes
            )
            query = passing_query(target.query, dialect.query)
            await self._forward(line, request, upstream, route, length=length, query=query)
        except Refused as refused:
            if line.answering:
                raise LineCut(f"an answer under way could not be ended: {refused}") from None
            await self._refuse(line, refused, dialect, bodiless=request.method == b"HEAD")

    async def _forward(
        self, line: Line, request: h11.Request, upstream: Upstream, route: Route, *, length: int | None, query: str
    ) -> None:
        if self._calls >= self._limits.calls:
            words = f"This desk already has {self._calls} calls under way; try again when one has ended."
            raise Refused(429, "busy", words, retry_after=1)
        self._calls += 1
        try:
            if route.wire is not None:
                await self._ask_to_spend()
            key = self._key(upstream)
            headers = to_upstream(request.headers, upstream, method=route.method, key=key, length=length)
            started_at, started = self._clock.now(), self._clock.monotonic()

            def settled(call: UpstreamCall) -> None:
                assert call.outcome is not None
                self._report(
                    Call(
                        session=self._session,
                        upstream=upstream.name,
                        path=route.path,
                        outcome=call.outcome,
                        status=call.status,
                        usage=call.meter.usage() if call.meter is not None else None,
                        sent_bytes=call.body.bytes,
                        received_bytes=call.received_bytes,
                        started_at=started_at,
                        duration_ms=self._clock.monotonic() - started,
                    )
                )

            call = UpstreamCall(line, upstream, route, key=key, limits=self._limits, settled=settled)
            await _watched(line, call.run(self._pools, upstream.url(route.path, query), headers))
        finally:
            self._calls -= 1

    async def _ask_to_spend(self) -> None:
        try:
            reason = await self._gate.may_spend(self._session)
        except Exception:
            # whatever the office's books say, or fail to say: nothing is spent without a yes
            log.exception("The budget could not be looked up", extra={"action": "gate_failed"})
            raise Refused(500, "internal", _INTERNAL) from None
        if reason is not None:
            # not 429, which would be tried again, and not 403, which claude shows as a failed login
            raise Refused(402, "over_budget", reason)

    def _key(self, upstream: Upstream) -> str | None:
        if upstream.key is None:
            return None
        try:
            key = self._gate.key_of(upstream)
        except ManyDesksError as error:
            # the reason names files of the host, which are none of the desk's business
            log.error("No key for '%s': %s", upstream.name, error, extra={"action": "key_missing"})
            words = f"The office has no key for the upstream '{upstream.name}'; its log says why."
            raise Refused(403, "no_key", words) from None
        if not key or not key.isascii() or not key.isprintable() or key != key.strip():
            raise Refused(403, "no_key", f"The key of the upstream '{upstream.name}' must be plain ASCII, one line.")
        return key

    def _report(self, call: Call) -> None:
        # at the usual level only what went wrong: an agent at work calls its model all day
        log.log(
            logging.DEBUG if call.outcome == "answered" else logging.INFO,
            "A model call of %s to %s ended: %s, status %s", call.session, call.upstream, call.outcome, call.status,
            extra={"action": "model_call"},
        )  # fmt: skip
        try:
            self._gate.called(call)
        except Exception:
            # the call is over, and its answer is the desk's; only the books are wrong now, and the log says so
            log.exception("The usage of a call could not be booked", extra={"action": "usage_not_booked"})

    async def _refuse(self, line: Line, refused: Refused, dialect: Dialect | None, *, bodiless: bool = False) -> None:
        extra = {"action": "proxy_refused", "session": self._session, "code": refused.code}
        log.info("A desk's request was refused: %s", refused.code, extra=extra)
        await line.refuse(answer_to(refused, dialect), bodiless=bodiless)


async def _watched(line: Line, call: Coroutine[Any, Any, None]) -> None:
    """The call, ended early when the desk hangs up. Leaves no task behind, whatever happens."""
    work, gone = asyncio.ensure_future(call), asyncio.ensure_future(line.left())
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        gone.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)
    if work.cancelled():
        raise LineCut("the desk left before the end of its answer")
    work.result()
