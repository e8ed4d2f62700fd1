"""OpenAI's responses: `POST /responses`. The whole conversation goes along each time; nothing is left at the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from manydesks.runner.providers.base import Usage
from manydesks.runner.providers.http_api.counts import Counts
from manydesks.runner.providers.http_api.failure import from_event, transient
from manydesks.runner.providers.http_api.shape import (
    arguments_of,
    as_object,
    count,
    packed,
    parsed,
    table,
    tables,
    text,
)
from manydesks.runner.providers.http_api.talk import Call, Entry, File, Opaque, Part, Result, Words
from manydesks.runner.providers.http_api.wire import Ask, Kind, Reader, Reply, Stop, unseen
from manydesks.runner.tools.base import Tool

WIRE = "responses"

_INCOMPLETE: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}
_ENDS = ("response.completed", "response.incomplete")


class Responses:
    name = WIRE
    path = "/responses"
    headers: ClassVar[Mapping[str, str]] = {}
    natively: ClassVar[Mapping[str, Kind]] = {
        "image/png": "image",
        "image/jpeg": "image",
        "image/gif": "image",
        "image/webp": "image",
        "application/pdf": "pdf",
    }

    def body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {"model": ask.model, "stream": True, "store": False}
        if ask.system:
            body["instructions"] = ask.system
        if ask.max_tokens is not None:
            body["max_output_tokens"] = ask.max_tokens
        if ask.tools:
            body["tools"] = [_tool(tool) for tool in ask.tools]
        body["input"] = [item for entry in ask.entries for item in _items(entry, ask)]
        return body | dict(ask.extra)

    def reader(self) -> Reader:
        return _Reader()


def _tool(tool: Tool) -> dict[str, Any]:
    # `strict` would want every argument to be required
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema(),
        "strict": False,
    }


def _items(entry: Entry, ask: Ask) -> Iterator[dict[str, Any]]:
    if entry.role == "user":
        content = [_block(part, ask) for part in entry.parts]
        if content:
            yield {"type": "message", "role": "user", "content": content}
        return
    for part in entry.parts:
        match part:
            case Words():
                content = [{"type": "output_text", "text": part.text}]
                yield {"type": "message", "role": "assistant", "content": content}
            case Call():
                written = packed(as_object(part.arguments))
                yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": written}
            case Result():
                words = part.text if part.ok else f"Error: {part.text}"
                yield {"type": "function_call_output", "call_id": part.id, "output": words}
            case Opaque() if part.wire == WIRE:
                yield dict(part.data)


def _block(part: Part, ask: Ask) -> dict[str, Any]:
    if not isinstance(part, File):
        return {"type": "input_text", "text": part.text if isinstance(part, Words) else ""}
    data = ask.load(part)
    if data is None:
        return {"type": "input_text", "text": unseen(part)}
    url = f"data:{part.mime};base64,{data}"
    if part.mime == "application/pdf":
        return {"type": "input_file", "filename": part.name, "file_data": url}
    return {"type": "input_image", "image_url": url}


class _Reader:
    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] | None = None
        self._counts = Counts(cache_in_input=True)
        self.done = False

    def feed(self, data: str) -> str:
        event = parsed(data)
        if not isinstance(event, dict):
            # some gateways end with the other API's last word
            if data.strip() == "[DONE]":
                return ""
            raise transient("the model server sent an event that is no JSON object")
        match event.get("type"):
            case "response.output_text.delta":
                return text(event.get("delta"))
            case "response.output_item.done":
                index = count(event.get("output_index"))
                self._items[len(self._items) if index is None else index] = table(event.get("item"))
            case kind if kind in _ENDS:
                self._end(table(event.get("response")))
                self.done = True
            case "response.failed":
                self._envelope(table(event.get("response")))
                raise from_event(table(event.get("response")))
            case "error":
                raise from_event(event)
            case "response.created":
                self._envelope(table(event.get("response")))
        return ""

    def whole(self, body: str) -> None:
        response = parsed(body)
        if not isinstance(response, dict) or "output" not in response:
            raise transient("the model server's answer is not one of the responses API")
        if response.get("error"):
            raise from_event(response)
        self._end(response)

    def usage(self) -> Usage | None:
        return self._counts.usage()

    def reply(self) -> Reply:
        if self._response is None:
            raise transient("the model server's answer broke off before its end")
        # the last event should have all of it; some servers leave it empty, others never gave the items one by one
        items = [item for _, item in sorted(self._items.items())] or tables(self._response.get("output"))
        parts = tuple(part for number, item in enumerate(items) for part in _parts(item, number))
        refusal = "".join(_refusals(items))
        reason = text(table(self._response.get("incomplete_details")).get("reason"))
        stop = _INCOMPLETE.get(reason) or ("refusal" if refusal else "end")
        return Reply(parts=parts, stop=stop, usage=self._counts.certain(), refusal=refusal)

    def _end(self, response: dict[str, Any]) -> None:
        self._response = response
        self._envelope(response)

    def _envelope(self, response: Mapping[str, Any]) -> None:
        self._counts.model = text(response.get("model")) or self._counts.model
        usage = table(response.get("usage"))
        self._counts.at_least("input", count(usage.get("input_tokens")))
        self._counts.at_least("output", count(usage.get("output_tokens")))
        self._counts.at_least("cache_read", count(table(usage.get("input_tokens_details")).get("cached_tokens")))


def _parts(item: Mapping[str, Any], number: int) -> Iterator[Part]:
    match item.get("type"):
        case "message":
            words = "".join(
                text(part.get("text")) for part in tables(item.get("content")) if part.get("type") == "output_text"
            )
            if words:
                yield Words(text=words)
        case "function_call":
            id = text(item.get("call_id")) or f"call_{number}"
            yield Call(id=id, name=text(item.get("name")), arguments=arguments_of(item.get("arguments")))
        case "reasoning" if item.get("encrypted_content"):
            # without that it can only be given back by its id, to a server that has kept it
            kept = {key: item[key] for key in ("type", "summary", "encrypted_content") if key in item}
            yield Opaque(wire=WIRE, data=kept)


def _refusals(items: list[dict[str, Any]]) -> Iterator[str]:
    for item in items:
        for part in tables(item.get("content")):
            if part.get("type") == "refusal":
                yield text(part.get("refusal"))
