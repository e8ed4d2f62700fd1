"""What the host lends to a surface that lives in its process, such as the API. The host knows no surface by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from manydesks.domain.clock import Clock
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home


@dataclass(frozen=True, kw_only=True, slots=True)
class Live:
    """What a run is saying just now. No row holds it."""

    agent: str
    session: str
    run: str
    #: the message that the run is about first, and its trace
    message: str
    trace: str
    #: the end of what it has said so far
    text: str


@dataclass(frozen=True, kw_only=True)
class Premises:
    """What a surface works with. All of it is for the host's own loop."""

    home: Home
    in_force: InForce
    clock: Clock
    #: has something done, as a command would: an act by its name, with its arguments
    act: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    #: a line for whoever watches the office's terminal
    show: Callable[[str], None]
    #: looks at the settings file now; returns when what it says counts, or was refused
    reread: Callable[[], Awaitable[None]]
    #: sessions at whose desks somebody works
    at_work: Callable[[], frozenset[str]]
    #: calls back after every commit
    on_commit: Callable[[Callable[[], None]], None]
    #: calls back whenever a run says something
    on_live: Callable[[Callable[[Live], None]], None]


class Surface(Protocol):
    """One way to the office, beside its own socket."""

    #: under which `status` shows it
    name: str

    async def start(self) -> None:
        """Come up. What is in the way keeps nobody from working: it is said, and tried again."""

    async def stop(self) -> None:
        """Go down: finish what is being answered, begin nothing more. Bounded."""

    def shown(self) -> dict[str, Any]:
        """How it is, for `status`."""


MakeSurface = Callable[[Premises], Surface]
