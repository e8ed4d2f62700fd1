"""OpenAI's chat completions, `POST /chat/completions`: what most compatible servers speak."""

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
from manydesks.runner.providers.http_api.talk import Call, Entry, File, Part, Result, Words
from manydesks.runner.providers.http_api.wire import Ask, Kind, Reader, Reply, Stop, unseen
from manydesks.runner.tools.base import Tool

WIRE = "chat"
DONE = "[DONE]"

_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refusal"}
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class Chat:
    name = WIRE
    path = "/chat/completions"
    headers: ClassVar[Mapping[str, str]] = {}
    natively: ClassVar[Mapping[str, Kind]] = {
        "image/png": "image",
        "image/jpeg": "image",
        "image/gif": "image",
        "image/webp": "image",
        "application/pdf": "pdf",
        **dict.fromkeys(_AUDIO, "audio"),
    }

    def body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {"model": ask.model, "stream": True, "stream_options": {"include_usage": True}}
        if ask.max_tokens is not None:
            body["max_tokens"] = ask.max_tokens
        if ask.tools:
            body["tools"] = [_tool(tool) for tool in ask.tools]
        system = [{"role": "system", "content": ask.system}] if ask.system else []
        body["messages"] = [*system, *(message for entry in ask.entries for message in _messages(entry, ask))]
        return body | dict(ask.extra)

    def reader(self) -> Reader:
        return _Reader()


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema()}
    return {"type": "function", "function": function}


def _messages(entry: Entry, ask: Ask) -> Iterator[dict[str, Any]]:
    match entry.role:
        case "tools":
            for part in entry.parts:
                if isinstance(part, Result):
                    words = part.text if part.ok else f"Error: {part.text}"
                    yield {"role": "tool", "tool_call_id": part.id, "content": words}
        case "model":
            message: dict[str, Any] = {"role": "assistant", "content": entry.words() or None}
            if calls := entry.calls():
                message["tool_calls"] = [_call(call) for call in calls]
            if message["content"] is not None or calls:
                yield message
        case "user":
            if not any(isinstance(part, File) for part in entry.parts):
                # plain text is what every server takes
                yield {"role": "user", "content": "\n\n".join(_words(entry))}
            else:
                yield {"role": "user", "content": [_block(part, ask) for part in entry.parts]}


def _words(entry: Entry) -> Iterator[str]:
    return (part.text for part in entry.parts if isinstance(part, Words))


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": packed(as_object(call.arguments))}
    return {"id": call.id, "type": "function", "function": function}


def _block(part: Part, ask: Ask) -> dict[str, Any]:
    if not isinstance(part, File):
        return {"type": "text", "text": part.text if isinstance(part, Words) else ""}
    data = ask.load(part)
    if data is None:
        return {"type": "text", "text": unseen(part)}
    if part.mime in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO[part.mime]}}
    url = f"data:{part.mime};base64,{data}"
    if part.mime == "application/pdf":
        return {"type": "file", "file": {"filename": part.name, "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}


class _Reader:
    def __init__(self) -> None:
        self._words: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Writing] = []
        self._finish: str | None = None
        self._counts = Counts(cache_in_input=True)
        self.done = False

    def feed(self, data: str) -> str:
        if data.strip() == DONE:
            self.done = True
            return ""
        chunk = parsed(data)
        if not isinstance(chunk, dict):
            raise transient("the model server sent an event that is no JSON object")
        if chunk.get("error"):
            raise from_event(chunk)
        self._envelope(chunk)
        # only one is asked for; the last chunk, with the usage, has none
        return self._choice(next(iter(tables(chunk.get("choices"))), {}), "delta")

    def whole(self, body: str) -> None:
        answer = parsed(body)
        if not isinstance(answer, dict) or not tables(answer.get("choices")):
            raise transient("the model server's answer is not one of chat completions")
        self._envelope(answer)
        self._choice(tables(answer["choices"])[0], "message")

    def usage(self) -> Usage | None:
        return self._counts.usage()

    def reply(self) -> Reply:
        if self._finish is None:
            raise transient("the model server's answer broke off before its end")
        words, refusal = "".join(self._words), "".join(self._refusal)
        calls = [call.done(number) for number, call in enumerate(self._calls)]
        stop = _STOPS.get(self._finish) or ("refusal" if refusal else "end")
        parts: tuple[Part, ...] = (*([Words(text=words)] if words else []), *calls)
        return Reply(parts=parts, stop=stop, usage=self._counts.certain(), refusal=refusal)

    def _envelope(self, chunk: Mapping[str, Any]) -> None:
        self._counts.model = text(chunk.get("model")) or self._counts.model
        usage = table(chunk.get("usage"))
        self._counts.at_least("input", count(usage.get("prompt_tokens")))
        self._counts.at_least("output", count(usage.get("completion_tokens")))
        self._counts.at_least("cache_read", count(table(usage.get("prompt_tokens_details")).get("cached_tokens")))

    def _choice(self, choice: Mapping[str, Any], key: str) -> str:
        said = table(choice.get(key))
        self._finish = text(choice.get("finish_reason")) or self._finish
        words = _text(said.get("content"))
        self._words.append(words)
        self._refusal.append(text(said.get("refusal")))
        for delta in tables(said.get("tool_calls")):
            self._writing(delta).take(delta)
        return words

    def _writing(self, delta: Mapping[str, Any]) -> _Writing:
        """The call that a piece belongs to. Servers differ: some give every call index 0, and only the id tells them
        apart; some leave out index and id, and every name is a new call."""
        id, index = text(delta.get("id")), count(delta.get("index"))
        begins = index is None and not id and bool(table(delta.get("function")).get("name"))
        for call in () if begins else reversed(self._calls):
            if (index is None or call.index == index) and (not id or not call.id or call.id == id):
                return call
        self._calls.append(_Writing(id, index))
        return self._calls[-1]


class _Writing:
    """A call that is still being written."""

    def __init__(self, id: str, index: int | None) -> None:
        self.id = id
        self.index = index
        self._name = ""
        self._arguments: list[str] = []

    def take(self, delta: Mapping[str, Any]) -> None:
        function = table(delta.get("function"))
        self.id = self.id or text(delta.get("id"))
        self._name = self._name or text(function.get("name"))
        arguments = function.get("arguments")
        self._arguments.append(packed(arguments) if isinstance(arguments, dict) else text(arguments))

    def done(self, number: int) -> Call:
        return Call(id=self.id or f"call_{number}", name=self._name, arguments=arguments_of("".join(self._arguments)))


def _text(content: Any) -> str:
    """Some servers give parts, of which thoughts are none for people."""
    if isinstance(content, list):
        return "".join(text(part.get("text")) for part in tables(content) if part.get("type", "text") == "text")
    return text(content)
