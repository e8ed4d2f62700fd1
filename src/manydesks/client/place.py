"""Where the office is, and what lets one in: what was given, else what this home's open office says of itself."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import httpx

from manydesks.domain.errors import NotRunning, OfficeError, SettingsError
from manydesks.settings.home import Home, reason_of
from manydesks.settings.load import load_settings
from manydesks.settings.token import read_token

#: addresses that mean all of a machine's own; from itself it is reached by the loopback
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Place:
    url: str
    #: empty: nothing is shown
    token: str = field(repr=False)
    #: of an office of this machine that takes files by their paths: its folder, from which it takes none
    home: Path | None = None
    #: of an office with a certificate of its own: what trusts that one, and no other
    trust: ssl.SSLContext | None = field(default=None, repr=False)


def place_of(url: str | None, token: str | None, home: str | Path | None) -> Place:
    """Without `url` the open office of `home` is asked over its control socket, which may take a moment.

    Raises `OfficeError` if no office is open there, its API is not there, or there is no token, and `SettingsError` if
    the home's settings are not valid.
    """
    if url is not None:
        if token is None:
            raise OfficeError(
                "With an address the token must be given too (`token`; empty if that office wants none): the token of "
                "this machine's own office is shown to no other."
            )
        return Place(url=url.rstrip("/"), token=token)
    folder = Home.resolve(str(home) if home is not None else None)
    found = _found(folder)
    if token is None:
        token = read_token(folder)
        if token is None:
            raise OfficeError(f"There is no token in {folder.path}; `manydesks token show` makes one, or give `token`.")
    api = load_settings(folder).api
    return Place(
        url=str(found).rstrip("/"),
        token=token,
        # the office reads paths for whoever comes by the loopback and shows the token
        home=folder.path if ip_address(found.host).is_loopback and api.auth == "token" else None,
        trust=_trust(Path(api.tls_certificate)) if found.scheme == "https" and api.tls_certificate else None,
    )


def _found(home: Home) -> httpx.URL:
    """What the settings say may be another port than the one that is listened at: 0, or one of the office's own
    environment."""
    from manydesks.office.door import Door  # needs the store, which a client of another machine's office does not

    office = Door(home).host()
    if office is None:
        raise NotRunning(home=home.path)
    api = office.get("api") or {}
    if not api.get("url"):
        raise OfficeError(f"The office on {home.path} has no API now: {api.get('why') or 'it is not listening.'}")
    url = httpx.URL(api["url"])
    return url.copy_with(host=EVERYWHERE.get(url.host, url.host))


def _trust(file: Path) -> ssl.SSLContext:
    """The first certificate of the file is the office's own; those behind it sign others' too.

    It counts by whatever name or address the office is called: nobody else has its key.
    """
    try:
        own = _CERTIFICATE.search(file.read_text("ascii", "replace"))
    except OSError as error:
        raise SettingsError(reason=f"{file} (api.tls_certificate) cannot be read, {reason_of(error)}.") from error
    if own is None:
        raise SettingsError(reason=f"{file} (api.tls_certificate) holds no certificate.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=own.group())
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(reason=f"{file} (api.tls_certificate) holds no certificate.") from error
    return context
