"""The options of both providers: what there is, and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from manydesks.domain.errors import BadInput
from manydesks.runner.providers.http_api.wire import Kind, Wire

Api = Literal["messages", "chat", "responses"]

ABOUT = {
    "base_url": "the address of a compatible API; the office calls it, never the desk",
    "key": "the name of the secret with the API's key",
    "context_tokens": "tokens that the model can hold; older talk is left out above it",
    "max_tokens": "tokens of one answer, at most",
    "max_rounds": "rounds of tool calls in one turn, at most; 50",
    "idle_seconds": "longest silence of the model server before the turn fails; 300",
    "native": 'files that the model gets as they are: a list of "image", "pdf" and "audio"; others go as paths',
    "extra": "a table of more fields for the request's body",
}

_DEFAULT_NATIVE: dict[Api, tuple[Kind, ...]] = {
    "messages": ("image", "pdf"),
    "chat": ("image",),  # few compatible servers know more
    "responses": ("image", "pdf"),
}
#: fields that are the conversation itself
_OURS = frozenset({"model", "messages", "input", "instructions", "system", "tools", "stream"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    api: Api
    context_tokens: int
    #: None: the API's own
    max_tokens: int | None
    max_rounds: int = 50
    idle_seconds: float = 300.0
    cache: bool = True
    native: frozenset[Kind] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def takes(self, wire: Wire) -> frozenset[str]:
        """Types of files that go to the model as they are."""
        return frozenset(mime for mime, kind in wire.natively.items() if kind in self.native)

    @property
    def budget(self) -> int:
        """Tokens of a prompt, so that there is room for an answer."""
        reserve = self.max_tokens or 4_096
        return max(self.context_tokens - reserve, self.context_tokens // 2)


def read(given: Mapping[str, Any], defaults: Options) -> Options:
    """Raises `BadInput` with one sentence about the first thing that is wrong."""
    api: Api = defaults.api
    if defaults.api != "messages":
        words = _value(given, "api", "chat", '"chat" or "responses"', lambda value: value in ("chat", "responses"))
        api = cast("Api", words)
    for name in ("base_url", "key"):
        _value(given, name, None, "a text", lambda value: isinstance(value, str) and value != "")
    native = _value(given, "native", _DEFAULT_NATIVE[api], 'a list of "image", "pdf" and "audio"', _are_kinds)
    extra = _value(
        given, "extra", {}, f"a table without {', '.join(sorted(_OURS))}",
        lambda value: isinstance(value, Mapping) and not _OURS.intersection(value),
    )  # fmt: skip
    return Options(
        api=api,
        context_tokens=_whole(given, "context_tokens", defaults.context_tokens, 1_000, 100_000_000),
        max_tokens=_whole(given, "max_tokens", defaults.max_tokens, 1, 10_000_000),
        max_rounds=_whole(given, "max_rounds", defaults.max_rounds, 0, 10_000),
        idle_seconds=float(
            _value(given, "idle_seconds", defaults.idle_seconds, "a number above 0, up to 86400", _are_seconds)
        ),
        cache=_value(given, "cache", defaults.cache, "true or false", lambda value: isinstance(value, bool)),
        native=frozenset(native),
        extra=extra,
    )


def _value(given: Mapping[str, Any], name: str, default: Any, allowed: str, fits: Callable[[Any], bool]) -> Any:
    if name not in given:
        return default
    value = given[name]
    if not fits(value):
        raise BadInput(reason=f"the option '{name}' must be {allowed}, not {str(value)[:60]!r}.")
    return value


def _whole(given: Mapping[str, Any], name: str, default: Any, least: int, most: int) -> Any:
    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return _value(given, name, default, f"a whole number from {least} to {most}", fits)


def _are_seconds(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 < value <= 86_400
    )


def _are_kinds(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(kind, str) and kind in get_args(Kind) for kind in value)
