"""What the host lays on a desk for its runner, `in/desk.json`: who it is, what drives it, how long it stays; no secret.

The host writes it before a runner starts; the folder is read-only for everybody at the desk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from manydesks.domain.errors import MailboxError
from manydesks.runner.providers.base import Endpoint, Station

FILE = "desk.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Orders:
    """One runner's start."""

    #: the agent's id
    agent: str
    #: its name, as people read it
    name: str
    #: the word of the provider that drives it
    provider: str
    model: str | None
    #: the agent's own folder
    workspace: str
    #: the session's folder: in/, out/, state/
    folder: str
    #: the provider's options, checked by the host
    options: Mapping[str, Any] = field(default_factory=dict)
    #: kind, socket and prefix of the way to a model; None: the provider needs none
    endpoint: Mapping[str, str] | None = None
    #: what the last accepted turn of the session left
    continuation: str | None = None
    #: True: what runs here cannot reach beyond the desk
    sandboxed: bool
    #: how long the runner stays without work
    idle_seconds: float
    #: the net under a nudge that got lost
    poll_seconds: float
    log_level: str = "warning"

    def station(self, *, tools_url: str | None = None, port: int | None = None) -> Station:
        """The desk as a provider finds it; `port`: where its endpoint is on loopback too."""
        folder, way, endpoint = Path(self.folder), self.endpoint, None
        if way is not None:
            endpoint = Endpoint(kind=way["kind"], socket=Path(way["socket"]), prefix=way["prefix"], port=port)
        return Station(
            agent=self.agent,
            name=self.name,
            model=self.model,
            workspace=Path(self.workspace),
            state=folder / "state",
            inbox=folder / "in" / "inbox",
            options=self.options,
            endpoint=endpoint,
            sandboxed=self.sandboxed,
            tools_url=tools_url,
        )

    def write(self) -> None:
        """Lay it on the desk, whole or not at all. Blocks. Raises `OSError`."""
        path = Path(self.folder, "in", FILE)
        fresh = path.with_name(f".{FILE}.new")
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, ensure_ascii=False)
        fresh.replace(path)


def read_orders(inbox: Path) -> Orders:
    """What the host laid into `in/`. Raises `MailboxError` if it is not there or not whole."""
    try:
        return Orders(**json.loads((inbox / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise MailboxError(reason=f"{inbox / FILE} cannot be read ({error})") from error
