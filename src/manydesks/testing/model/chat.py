"""OpenAI's chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.testing.model.asked import Asked, Listener, texts
from manydesks.testing.model.dialect import Pairing, Reply, items, model_of, parts
from manydesks.testing.model.openai import failure
from manydesks.testing.model.sse import event, pack, pieces

STOPS = {"end": "stop", "calls": "tool_calls", "length": "length", "refusal": "content_filter"}


class Chat:
    ping = b": ping\n\n"

    def read(self, body: Mapping[str, Any], headers: Mapping[str, str], conversation: str) -> Asked:
        listener, pairing = Listener(), Pairing()
        for message in items(body, "messages"):
            self._hear(message, listener, pairing)
        pairing.settled()
        offered = [tool.get("function", tool) for tool in parts(body.get("tools"))]
        tools = [str(tool.get("name")) for tool in offered]
        return listener.asked("chat", body, conversation, tools, model_of(body))

    def _hear(self, message: Mapping[str, Any], listener: Listener, pairing: Pairing) -> None:
        role, said = message.get("role"), texts(message.get("content"))
        if role == "tool":
            pairing.answered(message.get("tool_call_id"))
            listener.results.append("\n".join(said))
            return
        pairing.settled()
        match role:
            case "user":
                for text in said:
                    listener.person(text)
            case "assistant":
                listener.model()
                for call in parts(message.get("tool_calls")):
                    pairing.called(call.get("id"))
            case "system" | "developer":
                listener.system += said
            case _:
                raise BadInput(
                    reason=f"a message's role must be system, developer, user, assistant or tool, not '{role}'"
                )

    def whole(self, reply: Reply) -> dict[str, Any]:
        turn = reply.turn
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        if turn.thinking:
            message["reasoning_content"] = turn.thinking
        if turn.calls:
            message["tool_calls"] = [_call(reply, number, call.name) for number, call in enumerate(turn.calls)]
            for made, call in zip(message["tool_calls"], turn.calls, strict=True):
                made["function"]["arguments"] = pack(call.arguments).decode()
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": STOPS[turn.stops]}
        return {**_envelope(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}

    def events(self, reply: Reply) -> Iterator[bytes]:
        envelope = _envelope(reply, "chat.completion.chunk")
        options = reply.asked.body.get("stream_options")
        counts = isinstance(options, dict) and options.get("include_usage") is True
        extra = {"usage": None} if counts else {}

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return event({**envelope, "choices": [choice], **extra})

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(reply.turn.thinking, reply.turn.piece):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(reply.turn.text, reply.turn.piece):
            yield chunk({"content": piece})
        for number, call in enumerate(reply.turn.calls):
            yield chunk({"tool_calls": [{"index": number, **_call(reply, number, call.name)}]})
            for piece in pieces(pack(call.arguments).decode(), reply.turn.piece):
                yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
        yield chunk({}, STOPS[reply.turn.stops])
        if counts:
            yield event({**envelope, "choices": [], "usage": _usage(reply)})
        yield b"data: [DONE]\n\n"

    def failure(self, status: int, message: str, token: str) -> dict[str, Any]:
        return failure(status, message)

    def failed(self, reply: Reply, status: int, message: str, number: int) -> bytes:
        return event(failure(status, message))


def _envelope(reply: Reply, object: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.token}", "object": object, "created": reply.created, "model": reply.asked.model}


def _call(reply: Reply, number: int, name: str) -> dict[str, Any]:
    """A call whose arguments are still to come."""
    return {
        "id": f"call_{reply.token}_{number}",
        "type": "function",
        "function": {"name": name, "arguments": ""},
    }


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.turn.usage
    return {
        "prompt_tokens": reply.prompt,
        "completion_tokens": reply.output,
        "total_tokens": reply.prompt + reply.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
