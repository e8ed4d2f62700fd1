"""What a provider is: it takes a batch of messages and yields typed steps, the last of which answer or fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from manydesks.domain.mail import Failure, Inbound
from manydesks.runner.tools.base import Tools


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """Something that the agent said on the way; it is recorded, not sent."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    #: pairs the call with its result
    id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    id: str
    tool: str
    ok: bool
    result: Any
    duration_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens and money since the last `Usage` of this turn; unknown is None, not 0."""

    input: int | None
    output: int | None
    cache_read: int | None = None
    cache_write: int | None = None
    cost_usd: float | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Final text for these messages, each of which is completed by it; an empty text completes them in silence."""

    text: str
    #: ids of messages of the batch, each answered once
    answers: tuple[str, ...]
    #: what the provider needs to go on from here; a proposal that becomes true when the host has read it
    continuation: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The turn ends here: this message failed, and what was not answered yet goes back to the host."""

    failure: Failure
    reason: str
    #: the id of the message that failed
    message: str
    #: seconds
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """A piece of an answer that is still being written; shown while it lasts, never recorded."""

    text: str


Step = Text | ToolCall | ToolResult | Usage | Answer | Failed | Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """The way to a model: the host's door for this session, which adds the key. No key is ever here."""

    #: the dialect spoken there: anthropic or openai
    kind: str
    #: the Unix socket, as seen from the desk
    socket: Path
    #: where the API begins on that socket, such as `/anthropic`
    prefix: str = ""
    #: the same way as a port of the desk's loopback, where `Descriptor.needs_tcp` asks for it
    port: int | None = None

    @property
    def url(self) -> str:
        """Where the API begins for programs that speak TCP."""
        assert self.port is not None, "the provider's descriptor does not ask for TCP"
        return f"http://127.0.0.1:{self.port}{self.prefix}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Station:
    """The desk as a provider finds it."""

    #: the agent's id, as others address it
    agent: str
    #: its name, as people read it
    name: str
    model: str | None = None
    #: the agent's own folder
    workspace: Path
    #: the provider's own files of this session; they outlive the runner
    state: Path
    #: files that came with messages, by message id; read only
    inbox: Path | None = None
    #: the provider's section of the settings with the agent's own options over it; checked by `Descriptor.check`
    options: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    #: True: what runs here cannot reach beyond the desk, so a program may be left to do as it likes
    sandboxed: bool = False
    #: where the desk's tools are served for programs that speak MCP, such as `http://127.0.0.1:8091/mcp`
    tools_url: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What a provider is given."""

    #: the agent's id, as others address it
    agent: str
    #: its name, as people read it
    name: str
    #: one claim's messages, oldest first; those with `trigger` False are context and want no answer
    messages: tuple[Inbound, ...]
    tools: Tools
    #: what the last accepted turn of this session left
    continuation: str | None = None


class Provider(Protocol):
    """One instance serves one runner, one turn at a time; it may keep a program warm between turns.

    May raise anything: the loop records it as a transient failure of the message at hand. `RunnerCrashed` and
    cancellation go through. A turn that neither answers nor fails anything is recorded as failed. `Usage` comes before
    the `Answer` or `Failed` that it belongs to: with the last ack the run is over for the host.
    """

    def turn(self, batch: Turn) -> AsyncIterator[Step]:
        """An asynchronous generator; it is closed early when the turn has to end: an interrupt."""

    async def close(self) -> None:
        """The runner leaves: end whatever was kept warm."""


class Pushable(Protocol):
    """A provider that can take more messages while its turn is under way, and says which of them it has read."""

    async def push(self, messages: tuple[Inbound, ...]) -> None:
        """A later `Answer` of the same turn may cover them. It covers none that the model has not read: those are not
        acknowledged, and are the next turn's."""


class Owing(Protocol):
    """A provider that learns what a turn had spent only after it was closed early."""

    def owed(self) -> tuple[Usage, ...]:
        """What nobody was told yet. Asked right after a turn was closed early: the run is not over for the host."""


class Preparable(Protocol):
    """A provider whose program takes a while to start."""

    async def prepare(self, continuation: str | None) -> None:
        """Start it, before the runner has looked at its mail. What keeps it from starting is the first turn's to say:
        nothing is raised for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether a provider could work here, for `doctor` and for the first failure."""

    works: bool
    #: what was found, or what is missing and what to install or set
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Descriptor:
    """How a provider announces itself (`PROVIDER` of its file, or an entry point): importing it costs nothing."""

    #: the word in an agent's settings
    name: str
    #: True: it may run inside the host, since it executes nothing that an agent asked for
    in_process: bool
    #: imports what the provider needs and makes one
    load: Callable[[Station], Provider]
    #: the dialect of the endpoint it needs; None: it needs none
    endpoint: str | None = None
    #: True: it cannot choose a model by itself; the agent has to have one
    needs_model: bool = False
    #: its options, each with one line for people; others are refused
    options: Mapping[str, str] = field(default_factory=dict)
    #: reads the values of its options; raises `BadInput` with one sentence about the first that is not allowed. Whether
    #: a program or a file is there is not its business
    read: Callable[[Mapping[str, Any]], object] = lambda options: options
    #: the program it runs, looked for by `find_program`; None: none
    program: str | None = None
    #: True: its program cannot speak to a Unix socket, so its endpoint is also a port; not for desks inside the host
    needs_tcp: bool = False
    #: True: what `load` makes is `Pushable`, so the host may hand over more messages during a turn
    takes_more: bool = False
    #: True: what `load` makes is `Preparable`; not for desks inside the host
    prepares: bool = False
    #: whether it could work with these options
    check: Callable[[Mapping[str, Any]], Health] = lambda options: Health(works=True, why="nothing is needed")
    #: one line for people
    summary: str = ""
