"""The way to the office: where it is now, what is shown there, and what is trusted; for both clients."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import httpx

from manydesks.client.place import ANSWER_SECONDS, Place, place_of, trust
from manydesks.domain.errors import HomeError, OfficeError, SettingsError

#: as many connections as there are followers: each takes one for as long as it follows
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
#: an office that is asked where it is when there is no time for it
HURRY_SECONDS = 0.5


class Way:
    """Raises what `place_of` raises, to begin with."""

    def __init__(
        self, url: str | None, token: str | None, home: str | Path | None, verify: bool | ssl.SSLContext
    ) -> None:
        #: whether the office is asked where it is, and may be asked again
        self.asks = url is None
        self._token, self._home, self._verify = token, home, verify
        self.place = place_of(url, token, home)

    def look_again(self, seconds: float = ANSWER_SECONDS) -> None:
        """An office that was opened again may be at another port, with another token or another certificate. Blocks
        for `seconds` at most, or for a moment."""
        if not self.asks:
            return
        # none is open just now, or its settings are being written: it is tried again where it was
        with contextlib.suppress(OfficeError, SettingsError, HomeError):
            within = max(HURRY_SECONDS, min(ANSWER_SECONDS, seconds))
            self.place = place_of(None, self._token, self._home, seconds=within)

    def trusted(self, place: Place) -> str | None:
        """The one certificate that is, or None: what `verify` says. Connections are kept apart by it."""
        return place.certificate if self._verify is True else None

    def verify(self, trusted: str | None) -> bool | ssl.SSLContext:
        """As httpx takes it."""
        return trust(trusted) if trusted is not None else self._verify
