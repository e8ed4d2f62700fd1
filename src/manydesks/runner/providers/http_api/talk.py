"""A conversation as values that no API has a say in: what is kept, trimmed, and written anew for each wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["user", "model", "tools"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file that came with a message. The conversation holds its name, never its bytes."""

    #: SHA-256, by which the bytes are kept
    digest: str
    name: str
    mime: str
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A tool that the model wants to use."""

    id: str
    name: str
    #: an object; a text if the model wrote something that is no JSON object
    arguments: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What became of a call."""

    id: str
    ok: bool
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Opaque:
    """A part that only its own API understands, such as signed thoughts; given back to it as it came."""

    #: the wire it came from
    wire: str
    data: dict[str, Any]


Part = Words | File | Call | Result | Opaque


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One say. `user` holds words and files, `model` words, calls and opaque parts, `tools` the results of all calls of
    the entry before it."""

    role: Role
    parts: tuple[Part, ...]

    def words(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Words))

    def calls(self) -> tuple[Call, ...]:
        return tuple(part for part in self.parts if isinstance(part, Call))


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One turn, from what the person said to the answer: kept or left out as a whole, so calls stay with their
    results."""

    entries: tuple[Entry, ...]
    #: bytes of text per token, as the API's counts showed it at the end of this turn; None: it did not say
    density: float | None = None
