"""Settings that an office can be opened with: valid by their own rules, and by those of each part of the office."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address

from manydesks.desk.furnish import checked_options
from manydesks.domain.errors import BadInput, SettingsError
from manydesks.office.accounts import accounts
from manydesks.office.upstreams import upstreams
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.model import Settings
from manydesks.settings.problems import unknown


def valid_settings(home: Home, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings as they are now. `SettingsError` for an address that no key may go to, and for a section that its
    channel or provider does not take: found later, it would cost messages."""
    settings = load_settings(home, environ)
    check_settings(settings)
    return settings


def check_settings(settings: Settings) -> None:
    """`SettingsError` as `valid_settings`."""
    upstreams(settings)
    accounts(settings)
    check_providers(settings)
    check_api(settings)


def check_api(settings: Settings) -> None:
    """`SettingsError` for an office that anybody could reach without a login, and for half of what HTTPS needs."""
    api = settings.api
    if api.auth == "none" and not is_loopback(api.host):
        raise SettingsError(
            reason=f'api.auth is "none", and api.host is {api.host}: without a login the office listens on a loopback '
            "address only, such as 127.0.0.1; nothing was changed."
        )
    if bool(api.tls_certificate) != bool(api.tls_key):
        raise SettingsError(reason="api.tls_certificate and api.tls_key go together; nothing was changed.")


def check_listening(settings: Settings, listening: str | None) -> None:
    """`SettingsError` for settings that would open to everybody an office which other machines reach now: api.host
    counts at the next start, api.auth at once. `listening`: as `InForce` has it."""
    if settings.api.auth == "none" and listening is not None and not is_loopback(listening):
        raise SettingsError(
            reason=f'api.auth is "none", and until its next start the office listens at {listening}: without a login '
            "it listens on a loopback address only, so set api.host, restart the office, and then set api.auth; "
            "nothing was changed."
        )


def is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def check_providers(settings: Settings) -> None:
    """`SettingsError` for a provider that there is not, and for an option that its provider does not take."""
    known = Providers()
    for name in settings.providers:
        if name not in known.names():
            raise SettingsError(reason=f"{unknown(name, known.names(), 'provider')}; nothing was changed.")
        try:
            checked_options(known.get(name), {}, settings)
        except BadInput as error:
            why = str(error.details.get("reason") or error).rstrip(".")
            raise SettingsError(reason=f"[providers.{name}]: {why}; nothing was changed.") from error
