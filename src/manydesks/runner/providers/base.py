"""What a provider is: it takes a batch of messages and yields typed steps, the last of which answer or fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
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


Step = Text | ToolCall | ToolResult | Usage | Answer | Failed


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
    """One instance serves one runner, one turn at a time.

    May raise anything: the loop records it as a transient failure of the message at hand. `RunnerCrashed` and
    cancellation go through. A turn that neither answers nor fails anything is recorded as failed. `Usage` comes before
    the `Answer` or `Failed` that it belongs to: with the last ack the run is over for the host.
    """

    def turn(self, batch: Turn) -> AsyncIterator[Step]:
        """An asynchronous generator; it is closed early when the runner is told to stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Descriptor:
    """How a provider announces itself (`PROVIDER` of its file, or an entry point): importing it costs nothing."""

    #: the word in an agent's settings
    name: str
    #: True: it may run inside the host, since it executes nothing that an agent asked for
    in_process: bool
    #: imports what the provider needs and makes one
    load: Callable[[], Provider]
    #: one line for people
    summary: str = ""
