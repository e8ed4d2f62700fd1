"""What a wire is: how a conversation is written for one API, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from manydesks.runner.markup import escaped
from manydesks.runner.providers.base import Usage
from manydesks.runner.providers.http_api.talk import Entry, File, Part
from manydesks.runner.tools.base import Tool

#: end: all is said, or results of calls are awaited. length: it ran into `max_tokens`. window: into the end of the
#: context. refusal: it declines
Stop = Literal["end", "length", "window", "refusal"]
Kind = Literal["image", "pdf", "audio"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request."""

    model: str
    system: str
    entries: Sequence[Entry]
    tools: Sequence[Tool]
    #: None: the API's own limit
    max_tokens: int | None
    #: mark what the API may keep for the next call
    cache: bool = True
    #: more fields of the body, which win over ours
    extra: Mapping[str, Any] = field(default_factory=dict)
    #: the bytes of a file, in base64; None: it is only named
    load: Callable[[File], str | None] = lambda file: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One answer, whole."""

    #: words, calls and opaque parts, in their order
    parts: tuple[Part, ...]
    stop: Stop
    usage: Usage
    #: why it declines, if it said so
    refusal: str = ""


class Reader(Protocol):
    """Reads one answer. Raises `CallFailed` for an error among the events, and for what is no answer of this API."""

    @property
    def done(self) -> bool:
        """Nothing more is to come."""

    def feed(self, data: str) -> str:
        """The data of the next event; returns the words in it that are for people."""

    def whole(self, body: str) -> None:
        """An answer in one piece, from a server that does not stream."""

    def reply(self) -> Reply:
        """The answer. Raises `CallFailed` if it is not complete."""

    def usage(self) -> Usage | None:
        """What is known by now; None if nothing is."""


class Wire(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str:
        """Where requests go, below the endpoint's prefix."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def natively(self) -> Mapping[str, Kind]:
        """Types of files that the API takes as they are."""

    def body(self, ask: Ask) -> dict[str, Any]: ...

    def reader(self) -> Reader: ...


def unseen(file: File) -> str:
    """What a model is told that cannot have a file, or not any more."""
    return f"<host-notice>{escaped(f'The file {file.name} ({file.mime}) is not shown here.')}</host-notice>"
