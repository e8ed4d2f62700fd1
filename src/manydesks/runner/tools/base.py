"""What a tool is. Tools write rows and do nothing else: the host decides what becomes of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from manydesks.domain.mail import Content, Inbound

#: JSON type → Python types; a bool is no number
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a tool call gives back to the model."""

    ok: bool
    #: JSON-able; when not `ok`, a sentence that the model can act on
    result: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Where a call comes from, and what it may do."""

    #: the message that the agent works on
    message: Inbound
    #: writes one outbound row that answers it: (kind, content) → the row's number
    send: Callable[[str, Content], Awaitable[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One tool (`TOOL` of its file, or an entry point)."""

    name: str
    #: for the agent
    description: str
    #: argument → JSON Schema of its value; of the keywords, `type`, `enum`, `minLength` and `maxLength` are checked
    arguments: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    run: Callable[[Call, Mapping[str, Any]], Awaitable[Outcome]]

    def schema(self) -> dict[str, Any]:
        """The arguments as one JSON Schema, for models."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.arguments.items()},
            "required": sorted(self.required),
            "additionalProperties": False,
        }

    def complaint(self, arguments: Any) -> str | None:
        """A sentence about what is wrong with these arguments and what is allowed; None when they are fine."""
        if not isinstance(arguments, Mapping):
            return f"The arguments of {self.name} are an object; {self._allowed()}"
        unknown = [str(name) for name in arguments if name not in self.arguments]
        if unknown:
            return f"{self.name} has no argument '{unknown[0]}'; {self._allowed()}"
        for name in sorted(self.required):
            if name not in arguments:
                return f"{self.name} needs the argument '{name}'; {self._allowed()}"
        for name, value in arguments.items():
            wrong = _wrong(self.arguments[name], value)
            if wrong:
                return f"The argument '{name}' of {self.name} must be {wrong}."
        return None

    def _allowed(self) -> str:
        words = [
            f"{name} ({schema.get('type', 'any')}{', required' if name in self.required else ''})"
            for name, schema in self.arguments.items()
        ]
        return f"allowed are: {', '.join(words)}." if words else "it takes none."


class Tools(Protocol):
    """The tools of one turn, as a provider sees them."""

    def offered(self) -> tuple[Tool, ...]:
        """Every tool that may be called."""

    async def call(self, name: str, arguments: Any, *, message: str) -> Outcome:
        """Call a tool for the message with this id. A wrong name or argument is an outcome, never an exception."""


def _wrong(schema: Mapping[str, Any], value: Any) -> str | None:
    expected = schema.get("type")
    if expected is not None:
        allowed = _TYPES[expected]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            return f"of type {expected}"
    if "enum" in schema and value not in schema["enum"]:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return f"a text of at least {schema['minLength']} characters"
        if len(value) > schema.get("maxLength", len(value)):
            return f"a text of at most {schema['maxLength']} characters"
    return None
