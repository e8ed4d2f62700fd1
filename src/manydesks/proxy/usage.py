"""What a call has used, read from the answer while it passes by, streamed or in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from manydesks.proxy.dialect import Wire
from manydesks.proxy.events import EventData
from manydesks.proxy.picker import Path, Picker, Value


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call, each counted under one name only; unknown is None, not 0."""

    #: read at the full price: neither from the cache nor into it
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    #: as the upstream names it
    model: str | None = None
    #: False: the answer broke off before its count was complete, so what is known is the least it can have been
    final: bool = False


_Field = Literal["input", "output", "cache_read", "cache_write", "model", "final"]


def _below(prefix: Path, fields: dict[Path, _Field]) -> dict[Path, _Field]:
    return {(*prefix, *path): field for path, field in fields.items()}


_MESSAGES: dict[Path, _Field] = {
    ("usage", "input_tokens"): "input",
    ("usage", "output_tokens"): "output",
    ("usage", "cache_read_input_tokens"): "cache_read",
    ("usage", "cache_creation_input_tokens"): "cache_write",
    ("model",): "model",
}
_RESPONSES: dict[Path, _Field] = {
    ("usage", "input_tokens"): "input",
    ("usage", "output_tokens"): "output",
    ("usage", "input_tokens_details", "cached_tokens"): "cache_read",
    ("model",): "model",
}
_CHAT: dict[Path, _Field] = {
    ("usage", "prompt_tokens"): "input",
    ("usage", "completion_tokens"): "output",
    ("usage", "prompt_tokens_details", "cached_tokens"): "cache_read",
    ("model",): "model",
}

#: where each wire says what: in a plain answer, and in events
_PLACES: dict[Wire, dict[Path, _Field]] = {
    # message_start has a `message` with first counts, message_delta the last ones
    "messages": _MESSAGES | _below(("message",), _MESSAGES),
    # response.created has a `response` too, whose usage is null
    "responses": _RESPONSES | _below(("response",), _RESPONSES),
    # the last chunk, if the desk asked for it (stream_options.include_usage); some servers count in every chunk
    "chat": _CHAT,
}
#: the place whose number is the last word
_FINAL: dict[Wire, frozenset[Path]] = {
    "messages": frozenset({("usage", "output_tokens")}),
    "responses": frozenset({("usage", "output_tokens"), ("response", "usage", "output_tokens")}),
    "chat": frozenset({("usage", "completion_tokens")}),
}
#: OpenAI counts what came from the cache into the input, Anthropic does not
_CACHE_IN_INPUT: frozenset[Wire] = frozenset({"responses", "chat"})


class Meter:
    """Reads one answer. It holds a few hundred bytes, however long the answer is."""

    def __init__(self, wire: Wire, *, streamed: bool) -> None:
        self._wire = wire
        self._counts: dict[_Field, int] = {}
        self._model: str | None = None
        self._final = False
        self._picker = Picker(_PLACES[wire], self._found)
        self._events = EventData(self._picker.feed, self._picker.reset) if streamed else None

    def feed(self, chunk: bytes) -> None:
        (self._picker if self._events is None else self._events).feed(chunk)

    def usage(self) -> Usage | None:
        """What is known by now; None if nothing is."""
        if not self._counts and self._model is None:
            return None
        read, cached = self._counts.get("input"), self._counts.get("cache_read")
        if self._wire in _CACHE_IN_INPUT and read is not None and cached is not None:
            read = max(read - cached, 0)
        return Usage(
            input=read,
            output=self._counts.get("output"),
            cache_read=cached,
            cache_write=self._counts.get("cache_write"),
            model=self._model,
            final=self._final,
        )

    def _found(self, path: Path, value: Value) -> None:
        field = _PLACES[self._wire][path]
        if isinstance(value, str):
            if field == "model":
                self._model = value
        elif field != "model":
            # counts only grow in a stream; a server that leaves one out of its last event may write 0 there
            self._counts[field] = max(value, self._counts.get(field, 0))
            self._final = self._final or path in _FINAL[self._wire]
