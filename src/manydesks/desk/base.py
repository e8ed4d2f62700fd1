"""What every kind of desk promises, in process or in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from manydesks.domain.failure import Failure
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.providers.base import Endpoint


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
    #: the agent's own folder
    workspace: Path
    #: the sandbox that the agent's card names; None: the office's settings decide
    sandbox: str | None = None
    #: the agent's own options for its provider
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Bells:
    """How a desk calls the office; called on the office's event loop."""

    #: a runner sat down
    started: Callable[[str], None]
    #: the desk has written something
    output: Callable[[str], None]
    #: the runner has left; None: in good order (idle, told to), else why
    ended: Callable[[str, Failure | None], None]
    #: a piece of an answer that is still being written
    progress: Callable[[str, str], None] = lambda session, text: None


class Desk(Protocol):
    """One session's desk. The mailbox outlives whoever sits there."""

    mailbox: HostMailbox
    #: the word for people: what holds the runner
    sandbox: str
    #: it is in the host's own process
    inside: bool
    #: whether the provider takes more messages while its turn is under way
    takes_more: bool
    #: what the last accepted turn of the session left: for whoever sits down next
    continuation: str | None

    @property
    def seated(self) -> bool:
        """Whether a runner sits there, or is on its way in or out."""

    @property
    def keeps_process(self) -> bool:
        """Whether a process of its own sits there, and holds memory even while there is nothing to do."""

    def nudge(self) -> None:
        """There is work: whoever sits there looks, and if nobody does, somebody sits down."""

    def fault(self) -> str | None:
        """Why whoever sits there has to be ended: its processes use too much. Blocks for a look at them."""

    async def stop(self) -> None:
        """End the runner, and everything it started, at once. No `ended` bell follows."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """Which model server a desk calls."""

    #: the language to be spoken
    kind: str
    #: its name in the settings
    upstream: str
    #: an address of the agent's own, in the place of the named one
    base_url: str | None = None
    #: the name of the secret that goes there; without it an own address gets no key
    key: str | None = None


class Doors(Protocol):
    """The office's ways to models: a door for each session, which adds the key."""

    async def open(self, session: str, way: Way) -> Endpoint:
        """Make the session's door; one that is open already is made anew."""

    async def close(self, session: str) -> None:
        """Take it away; does nothing if there is none."""

    def check(self, way: Way) -> str | None:
        """Why there is no such way, and what to do; None if there is one."""
