"""Connections to the upstreams: one pool for each, kept warm between calls."""

from __future__ import annotations

import ssl

import httpx

from manydesks.proxy.limits import Limits
from manydesks.proxy.upstream import Upstream

#: connections to one upstream, all sessions together
POOL = 512
#: idle connections that are kept, and how long; the large providers hang up after a minute or more
KEPT = 32
KEPT_SECONDS = 30.0


class Pools:
    """Transports, not clients: these follow no redirect, keep no cookie and look at no variable of the environment."""

    def __init__(self, limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self._limits = limits
        self._tls = tls
        self._pools: dict[Upstream, httpx.AsyncHTTPTransport] = {}

    def change(self, limits: Limits) -> None:
        """Other times, from the next call on."""
        self._limits = limits

    async def send(self, upstream: Upstream, request: httpx.Request) -> httpx.Response:
        """The answer's head; whoever gets it closes it. Raises `httpx.TransportError`."""
        request.extensions["timeout"] = {
            "connect": self._limits.connect_seconds,
            "pool": self._limits.connect_seconds,
            "read": self._limits.upstream_seconds,
            "write": self._limits.upstream_seconds,
        }
        response = await self._pool(upstream).handle_async_request(request)
        response.request = request
        return response

    async def close(self) -> None:
        while self._pools:
            await self._pools.popitem()[1].aclose()

    def _pool(self, upstream: Upstream) -> httpx.AsyncHTTPTransport:
        if upstream not in self._pools:
            if self._tls is None:  # reading the trusted certificates takes tens of milliseconds: once, on use
                self._tls = httpx.create_ssl_context(trust_env=False)
            self._pools[upstream] = httpx.AsyncHTTPTransport(
                verify=self._tls,
                trust_env=False,
                limits=httpx.Limits(
                    max_connections=POOL, max_keepalive_connections=KEPT, keepalive_expiry=KEPT_SECONDS
                ),
            )
        return self._pools[upstream]
