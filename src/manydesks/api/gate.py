"""The gate: what every request passes before anything of the office sees it.

In this order: the name it was called by (a page whose name leads here by a trick of DNS has another one), where it
comes from (a page of another origin may neither read nor change anything), how often its machine asks, who asks, and
what it sends: JSON that says so, and not too much of it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any

from fastapi import HTTPException
from starlette.datastructures import Headers

from manydesks.api.complaint import NOT_UTF8
from manydesks.api.login import Slowing, Token
from manydesks.api.pace import Pace
from manydesks.api.refusal import INTERNAL, refusal
from manydesks.domain.clock import Clock
from manydesks.office.inforce import InForce
from manydesks.office.valid import is_loopback
from manydesks.settings.home import Home
from manydesks.settings.model import ApiSettings
from manydesks.store.audit import AUDIT, Audit

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: they hold nothing secret
OPEN = frozenset({"/api/docs", "/api/openapi.json"})
CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SCHEME = "bearer "
#: on everything that is answered
SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_SAFE_NAMES = frozenset(name for name, _ in SAFE)
#: what a page of a permitted origin may send along, and how long a browser remembers that
ALLOWED_HEADERS = b"authorization, content-type, last-event-id"
ALLOWED_METHODS = b"GET, POST, PUT, DELETE"
REMEMBERED = b"600"
#: what a page may read of an answer's head besides what it always may
EXPOSED = b"last-event-id, retry-after, x-manydesks-history"
#: a body is here by then, or is not taken
BODY_SECONDS = 60.0
_TOO_SLOW = f"The body has not come to its end within {BODY_SECONDS:g} seconds."
#: a name or an address, and perhaps a port
_HOST = re.compile(r"(?:\[(?P<inner>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")
#: what a browser says of a page that is not the office's own
_FOREIGN = frozenset({"cross-site", "same-site"})
_TOO_LARGE = "The body is too large; at most {} bytes are taken."


class Gate:
    """Around the application."""

    def __init__(
        self,
        app: App,
        *,
        has_route: Callable[[Scope], bool],
        strange: Callable[[Scope], str | None],
        home: Home,
        in_force: InForce,
        clock: Clock,
    ) -> None:
        """`strange`: a parameter that the route does not have."""
        self._app = app
        self._has_route = has_route
        self._strange = strange
        self._in_force = in_force
        self._token = Token(home)
        self._slowing = Slowing(clock)
        self._pace = Pace(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers, settings = Headers(scope=scope), self._in_force.settings.api
        # of several, which no browser sends, none is believed
        origin = origins[0] if len(origins := headers.getlist("origin")) == 1 else None
        permitted = origin in settings.origins
        sending = _Sending(send, origin if permitted else None)
        try:
            answer = await self._look(scope, headers, settings, permitted)
            if answer is None:
                limited = _Limited(receive, settings.body_bytes) if scope["method"] in CHANGES else None
                await self._pass(scope, receive if limited is None else limited, sending)
            else:
                await answer(scope, receive, sending)
        except Exception:
            # as it came: its escapes may stand for line breaks, which a log does not need
            log.exception("%s %r failed", scope["method"], scope["path"], extra={"action": "api_failed"})
            if not sending.begun:
                await refusal(500, INTERNAL)(scope, receive, sending)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in CHANGES:
            await self._app(scope, receive, send)
            return
        token = AUDIT.set(Audit(scope["method"], scope["path"], _address(scope)))
        try:
            await self._app(scope, receive, send)
        finally:
            AUDIT.reset(token)

    async def _look(self, scope: Scope, headers: Headers, settings: ApiSettings, permitted: bool) -> Any:
        """An answer, if it goes no further."""
        # where it listens, not where the settings say that it will after its next start
        local = is_local(self._in_force.listening or settings.host)
        # the settings are refused before this matters; it must not hang on that alone
        login = settings.auth == "token" or not local
        if not _is_ours(headers.getlist("host"), settings.names, local):
            return refusal(403, "The office is not called by this name; api.names in the settings lists more.")
        if (why := _stranger(scope, headers, permitted)) is not None:
            return refusal(403, why)
        if scope["method"] == "OPTIONS" and permitted and "access-control-request-method" in headers:
            return _preflight
        address = _address(scope)
        if not is_local(address) and (seconds := self._pace.wait(address, settings.per_minute)):
            return refusal(
                429,
                f"At most {settings.per_minute} requests a minute; ask again in {seconds} s.",
                {"Retry-After": str(seconds)},
            )
        if login and scope["path"] not in OPEN:
            refused = await self._log_in(headers.get("authorization"), address)
            if refused is not None:
                return refused
            # for what goes on after it was begun
            scope["manydesks.admitted"] = partial(self._is_right, headers.get("authorization"))
        if scope.get("query_string") and (name := self._strange(scope)) is not None:
            return refusal(400, f"There is no parameter '{name[:80]}' here.")
        if scope["method"] in CHANGES and (bad := _bad_body(scope["method"], headers, settings, login)) is not None:
            # of what cannot be done at all, that is said instead
            return bad if self._has_route(scope) else None
        return None

    def _is_right(self, given: str | None) -> bool:
        if given is None or given[: len(SCHEME)].lower() != SCHEME:
            return False
        return self._token.matches(given[len(SCHEME) :].strip().encode("latin-1", "replace"))

    async def _log_in(self, given: str | None, address: str) -> Any:
        if given is None:
            return _who("This needs the office's token: `Authorization: Bearer …`; `manydesks token show` prints it.")
        if self._is_right(given):
            return None
        seconds = self._slowing.wrong(address)
        if seconds is None:
            return refusal(429, "Too many wrong tokens; try again later.", {"Retry-After": "2"})
        if seconds:
            with self._slowing:
                await asyncio.sleep(seconds)
        return _who("This is not the office's token; `manydesks token show` prints it.")


@lru_cache(maxsize=1024)
def is_local(address: str) -> bool:
    """Whether a request came from this machine, by its loopback."""
    try:
        return is_loopback(address.removeprefix("::ffff:"))
    except ValueError:
        return False


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_ours(hosts: list[str], names: Sequence[str], local: bool) -> bool:
    """A name that a stranger chose must not lead here; an address is no name, so nobody else can let it lead here.
    `local`: only this machine reaches the office."""
    if len(hosts) != 1 or (parts := _HOST.fullmatch(hosts[0].lower())) is None:
        return False
    name = parts["inner"] or parts["name"] or ""
    if name == "localhost" or name in names:
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not local


def _stranger(scope: Scope, headers: Headers, permitted: bool) -> str | None:
    """Why a browser's page may not ask this; programs send none of these headers."""
    if permitted or scope["path"] in OPEN:
        return None
    own = f"{scope['scheme']}://{headers.get('host', '').lower()}"
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    if len(origins) > 1 or any(origin.lower() != own for origin in origins) or not _FOREIGN.isdisjoint(sites):
        return "Pages of other origins may not use the office; api.origins in the settings lists those that may."
    return None


def _bad_body(method: str, headers: Headers, settings: ApiSettings, login: bool) -> Any:
    length = headers.get("content-length")
    has_body = (length is not None and length != "0") or "transfer-encoding" in headers
    # what says nothing at all is no form, and a page cannot show a token without being asked whether it may
    silent = not has_body and "content-type" not in headers and login and "authorization" in headers
    if has_body or (method != "DELETE" and not silent):
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return refusal(415, "What changes something is sent as JSON: `Content-Type: application/json`.")
    if length is not None and length.isascii() and length.isdigit() and int(length) > settings.body_bytes:
        return _too_large(settings)
    return None


def _too_large(settings: ApiSettings) -> Any:
    # what is left of it is not read
    return refusal(413, _TOO_LARGE.format(settings.body_bytes), {"Connection": "close"})


def _who(sentence: str) -> Any:
    return refusal(401, sentence, {"WWW-Authenticate": "Bearer"})


async def _preflight(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", ALLOWED_METHODS),
        (b"access-control-allow-headers", ALLOWED_HEADERS),
        (b"access-control-max-age", REMEMBERED),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


class _Limited:
    """The body, as far as it is allowed, and as long; it may say nothing of its length, or lie."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = self._left = most
        self._until: float | None = asyncio.get_running_loop().time() + BODY_SECONDS

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, _TOO_SLOW, {"Connection": "close"}) from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise HTTPException(413, _TOO_LARGE.format(self._most), {"Connection": "close"})
            if b"\0" in message.get("body", b""):
                # no JSON in UTF-8 has one, and all in UTF-16 and UTF-32, which Python's reader would take
                raise HTTPException(400, NOT_UTF8, {"Connection": "close"})
            if not message.get("more_body", False):
                self._until = None  # there is no more to come but the end of the connection
        return message


class _Sending:
    """Adds to the head of an answer what every answer has, and remembers that it was sent."""

    def __init__(self, send: Send, origin: str | None) -> None:
        self._send = send
        self._origin = origin
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = [(name, value) for name, value in message["headers"] if name not in _SAFE_NAMES]
            more = [*SAFE]
            if self._origin is not None:
                more = [(n, v) for n, v in SAFE if n != b"cross-origin-resource-policy"]
                more += [(b"access-control-allow-origin", self._origin.encode("latin-1")), (b"vary", b"Origin")]
                more.append((b"access-control-expose-headers", EXPOSED))
            message = {**message, "headers": [*headers, *more]}
        await self._send(message)
