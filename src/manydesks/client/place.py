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

#: what no header carries, or no token has
_UNFIT = re.compile(r"[^\x21-\x7e]")
#: how long an office is asked where it is
ANSWER_SECONDS = 10.0

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Place:
    url: str
    #: empty: nothing is shown
    token: str = field(repr=False)
    #: of an office of this machine that takes files by their paths: its folder, from which it takes none
    home: Path | None = None
    #: of an office with a certificate of its own: that one is trusted, and no other
    certificate: str | None = field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def place_of(url: str | None, token: str | None, home: str | Path | None, *, seconds: float = ANSWER_SECONDS) -> Place:
    """Without `url` the open office of `home` is asked over its control socket, which takes `seconds` at most.

    Raises `OfficeError` if no office is open there, its API is not there, there is no token, or the address or the
    token that was given can be none, and `SettingsError` if the home's settings are not valid.
    """
    if token is not None:
        token = _token(token)
    if url is not None:
        if token is None:
            raise OfficeError(
                "With an address the token must be given too (`token`; empty if that office wants none): the token of "
                "this machine's own office is shown to no other."
            )
        return Place(url=_address(url), token=token)
    folder = Home.resolve(str(home) if home is not None else None)
    found = _found(folder, seconds)
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
        certificate=_certificate(Path(api.tls_certificate))
        if found.scheme == "https" and api.tls_certificate
        else None,
    )


def _token(given: str) -> str:
    """As it was read from a file, with its last line's end. What is wrong with it is said without it."""
    token = given.strip()
    if _UNFIT.search(token):
        raise OfficeError(
            "The token that was given cannot be one: it holds a space or a character that is no letter, digit or sign "
            "of ASCII; `manydesks token show` prints the office's."
        )
    return token


def _address(given: str) -> str:
    try:
        url = httpx.URL(given.strip())
    except httpx.InvalidURL:
        url = httpx.URL()
    host, port = url.host, url.port or 1
    # what no name holds is escaped, but for the zone of an address
    if url.scheme not in ("http", "https") or not host or ("%" in host and ":" not in host) or not 0 < port < 65536:
        raise OfficeError(f"'{given}' is no address of an office; one is written as http://127.0.0.1:3777.")
    return given.strip().rstrip("/")


def _found(home: Home, seconds: float) -> httpx.URL:
    """What the settings say may be another port than the one that is listened at: 0, or one of the office's own
    environment."""
    from manydesks.office.door import Door  # needs the store, which a client of another machine's office does not

    office = Door(home).host(seconds, patience=seconds)
    if office is None:
        raise NotRunning(home=home.path)
    api = office.get("api") or {}
    if not api.get("url"):
        raise OfficeError(f"The office on {home.path} has no API now: {api.get('why') or 'it is not listening.'}")
    url = httpx.URL(api["url"])
    return url.copy_with(host=EVERYWHERE.get(url.host, url.host))


def _certificate(file: Path) -> str:
    """The first certificate of the file is the office's own; those behind it sign others' too."""
    try:
        own = _CERTIFICATE.search(file.read_text("ascii", "replace"))
    except OSError as error:
        raise SettingsError(reason=f"{file} (api.tls_certificate) cannot be read, {reason_of(error)}.") from error
    try:
        trust(own.group() if own is not None else "")
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(reason=f"{file} (api.tls_certificate) holds no certificate.") from error
    assert own is not None
    return own.group()


def trust(certificate: str) -> ssl.SSLContext:
    """It counts by whatever name or address the office is called: nobody else has its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context
