"""The proxy: opens and closes the doors of sessions while the host runs."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput
from manydesks.proxy.door import Door
from manydesks.proxy.exchange import Exchange
from manydesks.proxy.gate import Gate
from manydesks.proxy.limits import Limits
from manydesks.proxy.pools import Pools
from manydesks.proxy.upstream import Upstream
from manydesks.settings.home import Home

#: how the names of our sockets begin
PREFIX = "px-"


def socket_path(home: Home, session: str) -> Path:
    """Where a session's socket lies, open or not: short, and the same in every life of the host."""
    return home.socket(PREFIX + hashlib.sha256(session.encode()).hexdigest()[:16])


class Proxy:
    """One for each host. Keys live here for the length of a call, and nowhere at a desk.

    Not promised: that a model server does not act for the agent. Tools that the server itself runs (search, fetching of
    pages) reach the network also when the desk cannot.
    """

    def __init__(
        self,
        home: Home,
        upstreams: Iterable[Upstream],
        gate: Gate,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._home = home
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        self._gate = gate
        self._limits = limits or Limits()
        self._clock = clock or SystemClock()
        self._pools = Pools(self._limits, tls)
        self._doors: dict[str, Door] = {}

    def change(self, upstreams: Iterable[Upstream], limits: Limits) -> None:
        """Other upstreams and limits, for doors that are opened from now on; times of calls count at once."""
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        self._limits = limits
        self._pools.change(limits)

    def sweep(self) -> int:
        """Remove the sockets that a host left which died; returns how many. Only with the office's lock, and before the
        first door is opened."""
        swept = 0
        for path in socket_path(self._home, "").parent.glob(f"{PREFIX}*"):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
                    swept += 1
        return swept

    async def open(self, session: str, upstreams: Iterable[str | Upstream]) -> Path:
        """Make a session's socket, which leads to these upstreams only: known ones by name, or one of its own. Returns
        where it is.

        Raises `BadInput` for an upstream that is not known or a session that has its door already, `HomeError` if the
        socket cannot be made.
        """
        if session in self._doors:
            raise BadInput(reason=f"the session '{session}' has its door already; close it first.")
        granted: dict[str, Upstream] = {}
        for name in upstreams:
            if isinstance(name, Upstream):
                granted[name.name] = name
                continue
            if name not in self._upstreams:
                known = ", ".join(sorted(self._upstreams)) or "none"
                raise BadInput(reason=f"there is no upstream '{name}'; there are: {known}.")
            granted[name] = self._upstreams[name]
        exchange = Exchange(
            session, granted, gate=self._gate, pools=self._pools, limits=self._limits, clock=self._clock
        )
        door = Door(socket_path(self._home, session), exchange.serve, connections=self._limits.connections)
        self._doors[session] = door
        try:
            await door.open()
        except BaseException:
            del self._doors[session]
            raise
        return door.path

    async def close(self, session: str) -> None:
        """Take a session's socket away and cut its calls; does nothing if it has none."""
        door = self._doors.pop(session, None)
        if door is not None:
            await door.close()

    async def stop(self) -> None:
        """Close every door, and the connections to the upstreams."""
        for session in tuple(self._doors):
            await self.close(session)
        await self._pools.close()
