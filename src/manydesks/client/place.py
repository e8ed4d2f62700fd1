"""Where the office is, and what lets one in: what was given, else what this machine's own office says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from manydesks.domain.errors import OfficeError
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.token import read_token

#: addresses that mean all of a machine's own; from itself it is reached by the loopback
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, kw_only=True)
class Place:
    url: str
    token: str | None = field(repr=False)


def place_of(url: str | None, token: str | None, home: str | Path | None) -> Place:
    """Raises `OfficeError` if there is no token, and `SettingsError` if the home's settings are not valid."""
    if url is not None and token is not None:
        return Place(url=url.rstrip("/"), token=token)
    folder = Home.resolve(str(home) if home is not None else None)
    api = load_settings(folder).api
    if url is None:
        host = EVERYWHERE.get(api.host, api.host)
        scheme = "https" if api.tls_certificate else "http"
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{api.port}"
    if token is None and api.auth == "token":
        token = read_token(folder)
        if token is None:
            raise OfficeError(f"There is no token in {folder.path}; `manydesks up` makes one, or give `token`.")
    return Place(url=url.rstrip("/"), token=token)
