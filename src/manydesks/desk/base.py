"""What every kind of desk promises, in process or in a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from manydesks.mailbox.host import HostMailbox


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Whose desk it is."""

    session: str
    agent: str
    agent_name: str
    provider: str
    model: str | None
    #: the session's folder: in/, out/, state/
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Bells:
    """How a desk calls the office; called on the office's event loop."""

    #: a runner sat down
    started: Callable[[str], None]
    #: the desk has written something
    output: Callable[[str], None]
    #: the runner has left; None: in good order (idle, told to), else why
    ended: Callable[[str, str | None], None]


class Desk(Protocol):
    """One session's desk. The mailbox outlives whoever sits there."""

    mailbox: HostMailbox

    def nudge(self) -> None:
        """There is work: whoever sits there looks, and if nobody does, somebody sits down."""

    async def stop(self) -> None:
        """End the runner, and everything it started, at once. No `ended` bell follows."""
