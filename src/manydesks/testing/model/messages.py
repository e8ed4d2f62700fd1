"""Anthropic's messages: `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.testing.model.asked import Asked, Listener, texts
from manydesks.testing.model.dialect import Pairing, Reply, items, model_of, parts
from manydesks.testing.model.sse import event, pack, pieces

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}

STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}


class Messages:
    ping = event({"type": "ping"}, "ping")

    def read(self, body: Mapping[str, Any], headers: Mapping[str, str], conversation: str) -> Asked:
        if "anthropic-version" not in headers:
            raise BadInput(reason="the header 'anthropic-version' is missing")
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            raise BadInput(reason="'max_tokens' must be a number from 1")
        listener, pairing = Listener(), Pairing()
        listener.system += texts(body.get("system"))
        for message in items(body, "messages"):
            self._hear(message, listener, pairing)
        pairing.settled()
        tools = [str(tool.get("name")) for tool in parts(body.get("tools"))]
        return listener.asked("messages", body, conversation, tools, model_of(body))

    def _hear(self, message: Mapping[str, Any], listener: Listener, pairing: Pairing) -> None:
        content = message.get("content")
        match message.get("role"):
            case "user" if isinstance(content, str):
                listener.person(content)
            case "user":
                for part in parts(content):
                    if part.get("type") == "tool_result":
                        pairing.answered(part.get("tool_use_id"))
                        listener.results.append("\n".join(texts(part.get("content"))))
                    elif isinstance(part.get("text"), str):
                        listener.person(part["text"])
            case "assistant":
                pairing.settled()
                listener.model()
                for part in parts(content):
                    if part.get("type") == "tool_use":
                        pairing.called(part.get("id"))
            case "system":  # claude says there what its surroundings are
                listener.system += texts(content)
            case role:
                raise BadInput(reason=f"a message's role must be user or assistant, not '{role}'")

    def whole(self, reply: Reply) -> dict[str, Any]:
        return {
            **_envelope(reply),
            "content": list(_blocks(reply)),
            "stop_reason": STOPS[reply.turn.stops],
            "usage": _usage(reply, reply.output),
        }

    def events(self, reply: Reply) -> Iterator[bytes]:
        yield _event("message_start", message={**_envelope(reply), "usage": _usage(reply, 1)})
        yield self.ping
        for index, block in enumerate(_blocks(reply)):
            empty, deltas = _streamed(block, reply.turn.piece)
            yield _event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        ending = {"stop_reason": STOPS[reply.turn.stops], "stop_sequence": None}
        yield _event("message_delta", delta=ending, usage=_usage(reply, reply.output))
        yield _event("message_stop")

    def failure(self, status: int, message: str, token: str) -> dict[str, Any]:
        error = {"type": TYPES.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error, "request_id": f"req_{token}"}

    def failed(self, reply: Reply, status: int, message: str, number: int) -> bytes:
        return event(self.failure(status, message, reply.token), "error")


def _envelope(reply: Reply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.token}",
        "type": "message",
        "role": "assistant",
        "model": reply.asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(reply: Reply) -> Iterator[dict[str, Any]]:
    turn = reply.turn
    if turn.thinking:
        yield {"type": "thinking", "thinking": turn.thinking, "signature": f"sig_{reply.token}"}
    if turn.text:
        yield {"type": "text", "text": turn.text}
    for number, call in enumerate(turn.calls):
        id = f"toolu_{reply.token}_{number}"
        yield {"type": "tool_use", "id": id, "name": call.name, "input": dict(call.arguments)}


def _streamed(block: dict[str, Any], size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as a stream gives it: empty at first, then filled by deltas."""
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], size)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case "text":
            return {**block, "text": ""}, [
                {"type": "text_delta", "text": piece} for piece in pieces(block["text"], size)
            ]
        case _:
            written = pack(block["input"]).decode()
            arguments = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(written, size)]
            return {**block, "input": {}}, arguments


def _usage(reply: Reply, output: int) -> dict[str, Any]:
    usage = reply.turn.usage
    return {
        "input_tokens": reply.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "service_tier": "standard",
    }


def _event(type: str, **data: Any) -> bytes:
    return event({"type": type, **data}, type)
