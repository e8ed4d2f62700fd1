"""What a tool is. Tools write rows and do nothing else: the host decides what becomes of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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


class Send(Protocol):
    """Writes one outbound row that answers the message at hand."""

    async def __call__(self, kind: str, content: Content, *, id: str | None = None) -> int:
        """The row's number, by which the agent may name it. `id`: the row's public id, if it was made before."""


async def _unknown(number: int) -> str | None:
    return None


async def _never(question: str) -> Content:
    raise TimeoutError


@dataclass(frozen=True, kw_only=True, slots=True)
class Means:
    """What a desk puts at the disposal of its tools."""

    #: the agent's own folder; None: the desk has none
    workspace: Path | None = None
    #: `out/outbox/` of the session
    outbox: Path | None = None
    #: the public id of the message with this number, the agent's own or one that it was given; None: there is none
    find: Callable[[int], Awaitable[str | None]] = _unknown
    #: waits for a person's answer to the question with this id
    answer: Callable[[str], Awaitable[Content]] = _never
    #: how long a tool waits for a person before the agent should end its turn
    ask_seconds: float = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Where a call comes from, and what it may do."""

    #: the message that the agent works on
    message: Inbound
    send: Send
    means: Means = field(default_factory=Means)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One tool (`TOOL` of its file, or an entry point)."""

    name: str
    #: for the agent
    description: str
    #: argument → JSON Schema of its value. Checked are `type`, `enum`, `minLength`, `maxLength`, `minimum`, `maximum`,
    #: `minItems`, `maxItems`, `items`, and of an object within `properties` (no others are allowed) and `required`
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
    """What the value must be, if it is not: the end of a sentence."""
    expected = schema.get("type")
    if expected is not None:
        allowed = _TYPES[expected]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            return f"of type {expected}"
    if "enum" in schema and value not in schema["enum"]:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str):
        return _off(schema, "Length", len(value), "a text of {} {} characters")
    if isinstance(value, list):
        return _off(schema, "Items", len(value), "a list of {} {} items") or _within(
            schema, {f"item {at}": (schema.get("items", {}), item) for at, item in enumerate(value, 1)}
        )
    if isinstance(value, dict) and "properties" in schema:
        known: Mapping[str, Any] = schema["properties"]
        if missing := [name for name in schema.get("required", ()) if name not in value]:
            return f"an object with '{missing[0]}'"
        if unknown := [str(name) for name in value if name not in known]:
            return f"an object without '{unknown[0]}'; it may have {', '.join(known)}"
        return _within(schema, {f"'{name}'": (known[name], item) for name, item in value.items()})
    if isinstance(value, int | float):
        if value < schema.get("minimum", value):
            return f"at least {schema['minimum']}"
        if value > schema.get("maximum", value):
            return f"at most {schema['maximum']}"
    return None


def _off(schema: Mapping[str, Any], what: str, size: int, sentence: str) -> str | None:
    if size < schema.get(f"min{what}", 0):
        return sentence.format("at least", schema[f"min{what}"])
    if size > schema.get(f"max{what}", size):
        return sentence.format("at most", schema[f"max{what}"])
    return None


def _within(schema: Mapping[str, Any], members: Mapping[str, tuple[Mapping[str, Any], Any]]) -> str | None:
    for name, (inner, item) in members.items():
        wrong = _wrong(inner, item)
        if wrong:
            kind = "a list" if schema.get("type") == "array" else "an object"
            return f"{kind} whose {name} is {wrong}"
    return None
