"""Whether other machines can reach the office, in words: said when it opens, by `status` and by `doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from manydesks.settings.model import ApiSettings


def url_of(api: ApiSettings, port: int) -> str:
    """Where an API with these settings answers."""
    host = f"[{api.host}]" if ":" in api.host else api.host
    return f"{'https' if api.tls_certificate else 'http'}://{host}:{port}"


def exposure(url: str) -> str | None:
    """One sentence about an API that answers there; None: only this machine reaches it."""
    parts = urlsplit(url)
    if parts.hostname is None or ip_address(parts.hostname).is_loopback:
        return None
    if parts.scheme == "https":
        return f"Other machines can reach the office at {url}, and whoever has the token is its owner."
    return (
        f"Other machines can reach the office at {url}, whoever has the token is its owner, and what is said is not "
        "encrypted, the token included (api.tls_certificate)."
    )


def exposure_of(host: Mapping[str, Any] | None) -> str | None:
    """The same, of an office that has said how it is; None also for one without an API."""
    url = ((host or {}).get("api") or {}).get("url")
    return exposure(url) if url else None
