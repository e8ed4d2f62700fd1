"""What a dialect is: how a request of its kind is read, and how an answer is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from manydesks.domain.errors import BadInput
from manydesks.testing.model.asked import Asked
from manydesks.testing.model.turn import Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A turn that answers a request, with what the script left open filled in."""

    asked: Asked
    turn: Turn
    #: unique; all ids in the answer are made of it
    token: str
    #: seconds since 1970
    created: int
    #: tokens that came from no cache and went into none
    input: int
    output: int

    @property
    def prompt(self) -> int:
        """All tokens that went in."""
        return self.input + self.turn.usage.cache_read + self.turn.usage.cache_write


class Dialect(Protocol):
    @property
    def ping(self) -> bytes:
        """An event, or a comment, that says nothing."""

    def read(self, body: Mapping[str, Any], headers: Mapping[str, str], conversation: str) -> Asked:
        """Raises BadInput for what the real service would answer with 400."""

    def whole(self, reply: Reply) -> dict[str, Any]:
        """The answer in one piece."""

    def events(self, reply: Reply) -> Iterator[bytes]:
        """The answer as server-sent events."""

    def failure(self, status: int, message: str, token: str) -> dict[str, Any]:
        """The body that comes with an HTTP status."""

    def failed(self, reply: Reply, status: int, message: str, number: int) -> bytes:
        """The same error as an event within a stream, after so many others."""


class Pairing:
    """Holds every tool call to its one result, as the real services do."""

    def __init__(self) -> None:
        self._open: dict[str, None] = {}
        self._known: set[str] = set()

    def called(self, id: Any) -> None:
        self._open[str(id)] = None
        self._known.add(str(id))

    def answered(self, id: Any) -> None:
        if str(id) not in self._known:
            raise BadInput(reason=f"there is a result for the tool call '{id}', but no such call before it")
        self._open.pop(str(id), None)

    def settled(self) -> None:
        """Here nothing may be open."""
        if self._open:
            raise BadInput(reason=f"the tool call '{next(iter(self._open))}' has no result right after it")


def items(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A list of objects that a request must have; it must hold at least one."""
    found = body.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(item, dict) for item in found):
        raise BadInput(reason=f"'{key}' must be a list of at least one object")
    return found


def parts(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content that are objects; a plain string has none."""
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def model_of(body: Mapping[str, Any]) -> str:
    if not isinstance(model := body.get("model"), str) or not model:
        raise BadInput(reason="'model' must be the name of a model")
    return model
