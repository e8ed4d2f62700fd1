"""Anthropic's messages: `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from manydesks.runner.providers.base import Usage
from manydesks.runner.providers.http_api.counts import Counts
from manydesks.runner.providers.http_api.failure import from_event, transient
from manydesks.runner.providers.http_api.shape import arguments_of, as_object, count, parsed, table, tables, text
from manydesks.runner.providers.http_api.talk import Call, File, Opaque, Part, Result, Words
from manydesks.runner.providers.http_api.wire import Ask, Kind, Reader, Reply, Stop, unseen
from manydesks.runner.tools.base import Tool

WIRE = "messages"
VERSION = "2023-06-01"

_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "window",
    "refusal": "refusal",
}
_COUNTS = {
    "input_tokens": "input",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
_MARK = {"cache_control": {"type": "ephemeral"}}
#: blocks that cannot be marked
_UNMARKED = frozenset({"thinking", "redacted_thinking"})


class Messages:
    name = WIRE
    path = "/v1/messages"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": VERSION}
    natively: ClassVar[Mapping[str, Kind]] = {
        "image/png": "image",
        "image/jpeg": "image",
        "image/gif": "image",
        "image/webp": "image",
        "application/pdf": "pdf",
    }

    def body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {"model": ask.model, "max_tokens": ask.max_tokens, "stream": True}
        mark = _MARK if ask.cache else {}
        if ask.system:
            # tools come before the system prompt in the API's order, so one mark is for both
            body["system"] = [{"type": "text", "text": ask.system, **mark}]
        if ask.tools:
            body["tools"] = [_tool(tool) for tool in ask.tools]
        body["messages"] = self._messages(ask)
        return body | dict(ask.extra)

    def reader(self) -> Reader:
        return _Reader()

    def _messages(self, ask: Ask) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        for entry in ask.entries:
            role = "assistant" if entry.role == "model" else "user"
            blocks = [block for part in entry.parts for block in _blocks(part, ask)]
            if not blocks:
                continue
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": role, "content": blocks})
        if ask.cache and messages and messages[-1]["content"][-1]["type"] not in _UNMARKED:
            messages[-1]["content"][-1] |= _MARK
        return messages


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema()}


def _blocks(part: Part, ask: Ask) -> Iterator[dict[str, Any]]:
    match part:
        case Words():
            if part.text.strip():  # the API refuses blocks without a word
                yield {"type": "text", "text": part.text}
        case File():
            yield _file(part, ask.load(part))
        case Call():
            yield {"type": "tool_use", "id": part.id, "name": part.name, "input": as_object(part.arguments)}
        case Result():
            failed = {} if part.ok else {"is_error": True}
            yield {"type": "tool_result", "tool_use_id": part.id, "content": part.text, **failed}
        case Opaque() if part.wire == WIRE:
            yield dict(part.data)


def _file(file: File, data: str | None) -> dict[str, Any]:
    if data is None:
        return {"type": "text", "text": unseen(file)}
    source = {"type": "base64", "media_type": file.mime, "data": data}
    if file.mime == "application/pdf":
        return {"type": "document", "source": source, "title": file.name}
    return {"type": "image", "source": source}


class _Reader:
    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        #: what deltas brought, by block and field
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._stop: str | None = None
        self._counts = Counts()
        self.done = False

    def feed(self, data: str) -> str:
        event = parsed(data)
        if not isinstance(event, dict):
            raise transient("the model server sent an event that is no JSON object")
        match event.get("type"):
            case "message_start":
                message = table(event.get("message"))
                self._counts.model = text(message.get("model")) or None
                # its output is a first guess, not a count
                self._count(message.get("usage"), final=False)
            case "content_block_start":
                self._blocks[_index(event)] = dict(table(event.get("content_block")))
            case "content_block_delta":
                return self._delta(_index(event), table(event.get("delta")))
            case "message_delta":
                self._stop = text(table(event.get("delta")).get("stop_reason")) or self._stop
                self._count(event.get("usage"), final=True)
            case "message_stop":
                self.done = True
            case "error":
                raise from_event(event)
        return ""

    def whole(self, body: str) -> None:
        message = parsed(body)
        if not isinstance(message, dict) or "content" not in message:
            raise transient("the model server's answer is not one of the messages API")
        self._blocks = dict(enumerate(tables(message["content"])))
        self._stop = text(message.get("stop_reason")) or None
        self._counts.model = text(message.get("model")) or None
        self._count(message.get("usage"), final=True)

    def usage(self) -> Usage | None:
        return self._counts.usage()

    def reply(self) -> Reply:
        if self._stop is None:
            raise transient("the model server's answer broke off before its end")
        found = (self._part(index, block) for index, block in sorted(self._blocks.items()))
        parts = tuple(part for part in found if part is not None)
        return Reply(parts=parts, stop=_STOPS.get(self._stop, "end"), usage=self._counts.certain())

    def _delta(self, index: int, delta: dict[str, Any]) -> str:
        for kind, field in _DELTAS:
            if delta.get("type") == kind:
                piece = text(delta.get(field))
                self._pieces.setdefault((index, field), []).append(piece)
                return piece if kind == "text_delta" else ""
        return ""

    def _part(self, index: int, block: dict[str, Any]) -> Part | None:
        def filled(field: str) -> str:
            return text(block.get(field)) + "".join(self._pieces.get((index, field), ()))

        match block.get("type"):
            case "text":
                words = filled("text")
                return Words(text=words) if words else None
            case "tool_use":
                written = filled("partial_json") or block.get("input")
                id = text(block.get("id")) or f"call_{index}"
                return Call(id=id, name=text(block.get("name")), arguments=arguments_of(written))
            case "thinking":
                thought = {"thinking": filled("thinking"), "signature": filled("signature")}
                return Opaque(wire=WIRE, data={**block, **thought})
            case "redacted_thinking":
                return Opaque(wire=WIRE, data=block)
            case _:
                return None  # blocks of tools that the server runs itself; their outcome is in the words

    def _count(self, usage: Any, *, final: bool) -> None:
        for key, field in _COUNTS.items():
            self._counts.at_least(field, count(table(usage).get(key)))
        if final:
            self._counts.at_least("output", count(table(usage).get("output_tokens")))


_DELTAS = (
    ("text_delta", "text"),
    ("input_json_delta", "partial_json"),
    ("thinking_delta", "thinking"),
    ("signature_delta", "signature"),
)


def _index(event: dict[str, Any]) -> int:
    index = count(event.get("index"))
    if index is None:
        raise transient("the model server sent a piece of an answer without its place")
    return index
