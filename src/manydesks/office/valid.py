"""Settings that an office can be opened with: valid by their own rules, and by those of each part of the office."""

from __future__ import annotations

import os
from collections.abc import Mapping

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
    upstreams(settings)
    accounts(settings)
    check_providers(settings)
    return settings


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
