"""The API in the host's process: comes up with the office, goes down with it, and is never in its way.

A port that another program has does not keep the office from working: it says so, in `status` and in its log, and
tries again until the port is free.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Any

from manydesks.api.door import Door
from manydesks.domain.errors import HomeError, SettingsError
from manydesks.office.encryption import fault_of
from manydesks.office.exposure import exposure, url_of
from manydesks.office.surface import Premises
from manydesks.settings.home import reason_of
from manydesks.settings.token import token_of

if TYPE_CHECKING:
    from manydesks.api.hub import Hub
    from manydesks.api.readers import Readers
    from manydesks.api.server import Server
    from manydesks.settings.model import ApiSettings

log = logging.getLogger(__name__)

#: how often a port that is taken is asked for again
AGAIN_SECONDS = 5.0


class ApiSurface:
    """One for each host. Importing it costs nothing; what it needs is loaded by `start`."""

    name = "api"

    def __init__(self, premises: Premises, *, again_seconds: float = AGAIN_SECONDS) -> None:
        self._premises = premises
        self._again_seconds = again_seconds
        self._server: Server | None = None
        self._hub: Hub | None = None
        self._readers: Readers | None = None
        self._again: asyncio.Task[None] | None = None
        #: where it answers; None: nowhere
        self.url: str | None = None
        #: why it does not answer
        self.why: str | None = None

    def shown(self) -> dict[str, Any]:
        hub, enabled = self._hub, self._premises.in_force.settings.api.enabled
        readers, waiting = (len(hub.followers), hub.waiting) if hub is not None else (0, 0)
        return {"enabled": enabled, "url": self.url, "why": self.why, "readers": readers, "waiting": waiting}

    async def start(self) -> None:
        if not self._premises.in_force.settings.api.enabled:
            self.why = "it is switched off (api.enabled)."
            return
        try:
            await self._open()
        except _NotNow as trouble:
            self._say(str(trouble))
            self._again = asyncio.create_task(self._until_open())

    async def stop(self) -> None:
        if self._again is not None:
            self._again.cancel()
            await asyncio.gather(self._again, return_exceptions=True)
        # those who follow go first: the server waits for everybody who is being answered
        if self._hub is not None:
            await self._hub.stop()
        if self._server is not None:
            await self._server.close()
        if self._readers is not None:
            await asyncio.to_thread(self._readers.close)
        self.url, self.why = None, "the office is closing."

    async def _until_open(self) -> None:
        while True:
            await asyncio.sleep(self._again_seconds)
            try:
                await self._open()
            except _NotNow as trouble:
                if str(trouble) != self.why:
                    self._say(str(trouble))
            else:
                return

    async def _open(self) -> None:
        premises = self._premises
        try:
            # before the port is taken: nobody connects to an office without one
            await asyncio.to_thread(token_of, premises.home)
        except (SettingsError, HomeError) as error:
            raise _NotNow(f"Nobody can be let in. {error}") from None
        settings = premises.in_force.settings.api
        # before the port is taken, too: from now on settings are judged by this address
        premises.in_force.listening = settings.host
        try:
            listener = await self._listened(settings)
        except _NotNow:
            premises.in_force.listening = None
            raise
        self.url, self.why = url_of(settings, listener.getsockname()[1]), None
        log.info("The API answers at %s", self.url, extra={"action": "api_up"})
        premises.show(f"The API answers at {self.url}; {self.url}/api/docs says what it can do.")
        if (warning := exposure(self.url)) is not None:
            log.warning("%s", warning, extra={"action": "api_exposed"})
            premises.show(warning)

    async def _listened(self, settings: ApiSettings) -> socket.socket:
        """With a server behind it. Raises `_NotNow`; then nothing listens."""
        if (fault := await asyncio.to_thread(fault_of, settings)) is not None:
            raise _NotNow(f"The files for HTTPS cannot be used: {fault}.")
        try:
            listener = await asyncio.to_thread(_listen, settings.host, settings.port)
        except OSError as error:
            raise _NotNow(_taken(settings.host, settings.port, error)) from None
        try:
            await self._serve(listener, settings.tls_certificate, settings.tls_key)
        except OSError as error:  # of files that were changed since they were looked at; those of ssl too
            listener.close()
            raise _NotNow(f"The files for HTTPS cannot be used: {reason_of(error)}.") from None
        return listener

    async def _serve(self, listener: socket.socket, certificate: str, key: str) -> None:
        # loaded here: fastapi takes a good part of a second, which an office without an API does not spend
        app_module, hub_module, readers_module, server_module = await asyncio.to_thread(_load)
        premises = self._premises
        readers = self._readers = self._readers or readers_module.Readers(premises.home)
        if self._hub is None:
            self._hub = hub_module.Hub(readers, door=Door(premises.home, premises.in_force))
            self._hub.start()
            premises.on_commit(self._hub.news)
            premises.on_live(self._hub.live)
        app = app_module.make_app(premises, readers, self._hub)
        server = server_module.Server(app, certificate=certificate, key=key)
        await server.open(listener)
        self._server = server

    def _say(self, why: str) -> None:
        self.why = why
        log.error("The API is not there: %s", why, extra={"action": "api_down"})
        self._premises.show(f"The API is not there: {why} The office works without it.")


class _NotNow(Exception):
    """It cannot be opened as things are; its sentence says why."""


def _load() -> tuple[Any, Any, Any, Any]:
    from manydesks.api import app, hub, readers, server

    return app, hub, readers, server


def _listen(host: str, port: int) -> socket.socket:
    from manydesks.api.server import listen

    return listen(host, port)


def _taken(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is taken by another program; set api.port (or MANYDESKS_PORT) to another one, or "
            "end that program."
        )
    return f"{host}, port {port}, cannot be listened at: {reason_of(error)}."
