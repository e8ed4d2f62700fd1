"""The office's ways to models: the credential proxy, with the owner's model servers and secrets behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from manydesks.desk.base import Way
from manydesks.domain.errors import BadInput, HomeError, SettingsError
from manydesks.office.budget import Purse
from manydesks.proxy.gate import Call, Gate
from manydesks.proxy.limits import Limits
from manydesks.proxy.server import Proxy
from manydesks.proxy.upstream import Upstream
from manydesks.runner.providers.base import Endpoint
from manydesks.settings.home import Home
from manydesks.settings.model import ProxySettings, Settings
from manydesks.settings.secrets import load_secrets
from manydesks.settings.token import read_token

MIB = 1 << 20
#: the API's, among the secrets that are blotted out; no secret can be called so
TOKEN = "api.token"


def upstreams(settings: Settings) -> list[Upstream]:
    """The model servers that the settings name. Raises `SettingsError` for an address that no key may go to."""
    return [
        Upstream(
            name=name,
            kind=given.kind,
            base_url=given.base_url,
            key=given.key or None,
            key_header=given.key_header or None,
        )
        for name, given in settings.all_upstreams().items()
    ]


def lacking(upstream: Upstream, secrets: Mapping[str, str]) -> str | None:
    """What to set before the upstream can be called; None: nothing."""
    if upstream.key is None or upstream.key in secrets:
        return None
    return (
        f"The model server '{upstream.name}' needs a key, and there is no secret '{upstream.key}': "
        f"`manydesks secret set {upstream.key}` stores it."
    )


def upstream_of(way: Way, known: Mapping[str, Upstream]) -> Upstream:
    """The model server that is meant. Raises `BadInput` or `SettingsError` if there is none."""
    found = known.get(way.upstream)
    if way.base_url is not None:
        return Upstream(name=way.upstream, kind=way.kind, base_url=way.base_url, key=way.key)
    if found is None:
        names = ", ".join(sorted(known))
        raise BadInput(f"There is no model server '{way.upstream[:80]}'; the settings name {names}.")
    if found.kind != way.kind:
        raise BadInput(
            f"The model server '{way.upstream}' speaks '{found.kind}', and the agent's provider '{way.kind}'."
        )
    return found if way.key is None else replace(found, key=way.key)


def known_secrets(home: Home) -> Mapping[str, str]:
    """For blotting out; none while their file is not valid, since then no call was made with them either."""
    try:
        known: Mapping[str, str] = load_secrets(home)
    except (SettingsError, HomeError):
        known = {}
    try:
        token = read_token(home)
    except (SettingsError, HomeError):
        token = None
    return known if token is None else {**known, TOKEN: token}


class Doors:
    """As `desk.base.Doors`. One for each host."""

    def __init__(self, home: Home, settings: Settings, purse: Purse | None = None) -> None:
        """Raises `SettingsError` for a model server that is not valid. Without a `purse` nothing is capped."""
        self._home = home
        self._known = {upstream.name: upstream for upstream in upstreams(settings)}
        self._proxy = Proxy(
            home,
            self._known.values(),
            Gate(
                key_of=self._key_of,
                may_spend=_may_spend if purse is None else purse.may_spend,
                called=_called if purse is None else purse.called,
            ),
            limits=_limits(settings.proxy),
        )

    def take_settings(self, settings: Settings) -> None:
        """These count for the next door that is opened; one that is open stays as it is. They were checked."""
        self._known = {upstream.name: upstream for upstream in upstreams(settings)}
        self._proxy.change(self._known.values(), _limits(settings.proxy))

    def sweep(self) -> int:
        """Remove what a host left that died. Only with the office's lock, before the first door."""
        return self._proxy.sweep()

    async def open(self, session: str, way: Way) -> Endpoint:
        upstream = self.upstream(way)
        await self._proxy.close(session)
        socket = await self._proxy.open(session, [upstream])
        return Endpoint(kind=upstream.kind, socket=socket, prefix=f"/{upstream.name}")

    def upstream(self, way: Way) -> Upstream:
        """As `upstream_of`."""
        return upstream_of(way, self._known)

    async def close(self, session: str) -> None:
        await self._proxy.close(session)

    async def stop(self) -> None:
        await self._proxy.stop()

    def check(self, way: Way) -> str | None:
        try:
            return lacking(self.upstream(way), load_secrets(self._home))
        except (BadInput, SettingsError) as error:
            return str(error)

    def secrets(self) -> Mapping[str, str]:
        return known_secrets(self._home)

    def _key_of(self, upstream: Upstream) -> str:
        secrets = load_secrets(self._home)
        if (fault := lacking(upstream, secrets)) is not None:
            raise SettingsError(fault)
        assert upstream.key is not None
        return secrets[upstream.key]


async def _may_spend(_session: str) -> str | None:
    return None


def _called(_call: Call) -> None:
    """Nobody keeps the books."""


def _limits(settings: ProxySettings) -> Limits:
    return replace(
        Limits(),
        body_bytes=settings.body_mib * MIB,
        connections=settings.connections,
        calls=settings.calls,
        connect_seconds=float(settings.connect_seconds),
        upstream_seconds=float(settings.upstream_seconds),
    )
