"""A real office with its API, and somebody who is let in: for tests of programs that talk to one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from manydesks.testing.office import NO_API, OfficeProcess

#: its API listens at a port that is free
SERVED = {NO_API: "true", "MANYDESKS_PORT": "0"}


class ServedOffice(OfficeProcess):
    """`manydesks up` with an API. Settings as keywords: `api__per_minute=1`."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] = (sys.executable, "-m", "manydesks"),
        **settings: object,
    ) -> None:
        given = {f"MANYDESKS_{name.upper()}": str(value) for name, value in settings.items()}
        super().__init__(home, {**(os.environ if environ is None else environ), **SERVED, **given}, command=command)

    def caller(self, *, token: str | None = None, **options: Any) -> httpx.Client:
        """Somebody with the token, or with another; `options` are httpx's."""
        return httpx.Client(**self._asking(token), **options)

    def async_caller(self, *, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(**self._asking(token), **options)

    def _asking(self, token: str | None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token() if token is None else token}"}
        return {"base_url": self.url(), "headers": headers, "timeout": 30, "trust_env": False}
