"""Where calls go: a model server that the owner has named, and what desks may ask it for."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from manydesks.domain.errors import SettingsError
from manydesks.domain.ids import is_name
from manydesks.proxy.dialect import Dialect, Route, dialect_of

_HEADER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """One model server. Desks call it `http://127.0.0.1:<port>/<name>`, in the place of `base_url`.

    Raises `SettingsError` if a field is not valid.
    """

    #: the word in the settings, and the first part of a path at the desk
    name: str
    #: anthropic or openai: the language it speaks
    kind: str
    #: https, or http on this machine: a key never crosses a network in the clear
    base_url: str
    #: the name of a secret; None: it wants no key
    key: str | None
    #: the header that carries the key; None: the usual one of its kind. In `authorization` it is a bearer token
    key_header: str | None = None

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise SettingsError(
                reason=f"an upstream's name is 1 to 32 lowercase letters, digits, _ and -, not {self.name[:60]!r}."
            )
        dialect_of(self.kind)
        if fault := _address_fault(self.base_url):
            raise SettingsError(reason=f"the base_url of upstream '{self.name}' {fault}.")
        if self.key_header is not None and not _HEADER.fullmatch(self.key_header):
            raise SettingsError(
                reason=f"the key_header of upstream '{self.name}' must be a header's name, in lowercase."
            )

    @cached_property
    def dialect(self) -> Dialect:
        return dialect_of(self.kind)

    @cached_property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc

    def route(self, method: str, path: str) -> Route | None:
        """What this request asks for; None if it is not open to desks."""
        for route in self.dialect.routes:
            if (route.method, route.path) == (method, path):
                return route
        return None

    def url(self, path: str, query: str) -> str:
        return self.base_url.rstrip("/") + path + (f"?{query}" if query else "")

    def auth(self, key: str) -> tuple[str, str]:
        """The header that carries the key, with its value."""
        header = self.key_header or self.dialect.key_header
        return header, f"Bearer {key}" if header == "authorization" else key


def _address_fault(base_url: str) -> str | None:
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "must begin with https:// (or http:// on this machine)"
    if parts.scheme == "http" and not _is_loopback(host):
        return "must begin with https://, since http:// would send the key in the clear (allowed on this machine only)"
    if "@" in parts.netloc:
        return "must not hold a name or a password"
    if "?" in base_url or "#" in base_url:
        return "must not hold ? or #"
    if not _PATH.fullmatch(parts.path) or any(part in (".", "..") for part in parts.path.split("/")):
        return "has a path with more than letters, digits, and . _ ~ - inside"
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        return "must be plain ASCII"
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
