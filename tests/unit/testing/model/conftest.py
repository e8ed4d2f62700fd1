"""Plain HTTP clients for the three dialects: what a provider would do, in as few words as possible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from manydesks.testing.model import ModelServer, ScriptedModel


@dataclass
class Heard:
    """An answer, put together again from whichever shape it came in."""

    text: str = ""
    thinking: str = ""
    #: id, name, arguments
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    #: an error within the stream
    error: Any = None


class Client:
    """Asks in one dialect, streamed or not."""

    def __init__(self, dialect: str, stream: bool) -> None:
        self.dialect = dialect
        self.stream = stream
        self.path = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}[dialect]

    def body(self, *said: str, **more: Any) -> dict[str, Any]:
        """A request in which the person said this, each answered by "ok" but the last."""
        items: list[dict[str, Any]] = []
        for text in said:
            items += [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
        key = "input" if self.dialect == "responses" else "messages"
        body: dict[str, Any] = {"model": "m", "stream": self.stream, key: items[:-1], **more}
        if self.dialect == "messages":
            body["max_tokens"] = 100
        if self.dialect == "chat" and self.stream:
            body["stream_options"] = {"include_usage": True}
        return body

    def post(
        self,
        model: ScriptedModel | ModelServer,
        *said: str,
        headers: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> httpx.Response:
        return httpx.post(
            model.base_url + self.path,
            json=body or self.body(*(said or ("hi",))),
            headers={"anthropic-version": "2023-06-01", **(headers or {})},
            trust_env=False,
            timeout=20,
        )

    def ask(self, model: ScriptedModel | ModelServer, *said: str, **given: Any) -> Heard:
        answer = self.post(model, *said, **given)
        assert answer.status_code == 200, answer.text
        return self.heard(answer)

    def heard(self, answer: httpx.Response) -> Heard:
        if not self.stream:
            return getattr(self, f"_{self.dialect}")(answer.json())  # type: ignore[no-any-return]
        return getattr(self, f"_{self.dialect}_events")(list(events(answer.text)))  # type: ignore[no-any-return]

    def _messages(self, body: dict[str, Any]) -> Heard:
        heard = Heard(stop=body["stop_reason"], usage=body["usage"])
        for block in body["content"]:
            match block["type"]:
                case "text":
                    heard.text += block["text"]
                case "thinking":
                    heard.thinking += block["thinking"]
                case "tool_use":
                    heard.calls.append((block["id"], block["name"], block["input"]))
        return heard

    def _messages_events(self, events: list[dict[str, Any]]) -> Heard:
        message: dict[str, Any] = {}
        blocks: list[dict[str, Any]] = []
        for event in events:
            match event["type"]:
                case "message_start":
                    message = event["message"]
                case "content_block_start":
                    assert event["index"] == len(blocks)
                    blocks.append({**event["content_block"], "json": ""})
                case "content_block_delta":
                    block, delta = blocks[event["index"]], event["delta"]
                    match delta["type"]:
                        case "input_json_delta":
                            block["json"] += delta["partial_json"]
                        case kind:
                            name = kind.removesuffix("_delta")
                            block[name] += delta[name]
                case "message_delta":
                    message |= {**event["delta"], "usage": event["usage"]}
                case "error":
                    return Heard(error=event["error"])
        assert events[-1] == {"type": "message_stop"}
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["json"])
        return self._messages({**message, "content": blocks})

    def _responses(self, body: dict[str, Any]) -> Heard:
        stop = body["status"] if body["incomplete_details"] is None else body["incomplete_details"]["reason"]
        heard = Heard(stop=stop, usage=body["usage"], error=body["error"])
        for item in body["output"]:
            match item["type"]:
                case "message":
                    heard.text += item["content"][0]["text"]
                case "reasoning":
                    heard.thinking += item["summary"][0]["text"]
                case "function_call":
                    heard.calls.append((item["call_id"], item["name"], json.loads(item["arguments"])))
        return heard

    def _responses_events(self, events: list[dict[str, Any]]) -> Heard:
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        heard = self._responses(events[-1]["response"])
        if heard.error is None:
            deltas: dict[str, str] = {}
            for event in events:
                if event["type"].endswith(".delta"):
                    deltas[event["type"]] = deltas.get(event["type"], "") + event["delta"]
            assert deltas.get("response.output_text.delta", "") == heard.text
            assert deltas.get("response.reasoning_summary_text.delta", "") == heard.thinking
            written = deltas.get("response.function_call_arguments.delta", "")
            assert written == "".join(
                json.dumps(call[2], ensure_ascii=False, separators=(",", ":")) for call in heard.calls
            )
        return heard

    def _chat(self, body: dict[str, Any]) -> Heard:
        [choice] = body["choices"]
        message = choice["message"]
        return Heard(
            text=message["content"] or "",
            thinking=message.get("reasoning_content", ""),
            calls=[
                (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls", [])
            ],
            stop=choice["finish_reason"],
            usage=body["usage"],
        )

    def _chat_events(self, events: list[dict[str, Any]]) -> Heard:
        heard = Heard()
        calls: list[dict[str, Any]] = []
        for event in events:
            if "error" in event:
                return Heard(error=event["error"])
            heard.usage = event["usage"] or {}
            for choice in event["choices"]:
                delta = choice["delta"]
                heard.text += delta.get("content") or ""
                heard.thinking += delta.get("reasoning_content") or ""
                for call in delta.get("tool_calls", []):
                    if call["index"] == len(calls):
                        calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
                    calls[call["index"]]["arguments"] += call["function"]["arguments"]
                heard.stop = choice["finish_reason"] or heard.stop
        heard.calls = [(call["id"], call["name"], json.loads(call["arguments"])) for call in calls]
        return heard


def events(text: str) -> Iterator[dict[str, Any]]:
    """The data of every server-sent event; the mark at the end of chat completions is none."""
    for event in text.split("\n\n"):
        for line in event.splitlines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line.removeprefix("data: "))


CLIENTS = [Client(dialect, stream) for dialect in ("messages", "responses", "chat") for stream in (False, True)]


@pytest.fixture(params=CLIENTS, ids=lambda client: f"{client.dialect}-{'stream' if client.stream else 'whole'}")
def client(request: pytest.FixtureRequest) -> Client:
    """Every dialect, streamed and not."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def plain() -> Client:
    """One that is as good as any, where the dialect does not matter."""
    return Client("messages", False)


@pytest.fixture
def streaming() -> Client:
    return Client("messages", True)
