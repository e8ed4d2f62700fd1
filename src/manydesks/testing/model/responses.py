"""OpenAI's responses: `POST /v1/responses`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.testing.model.asked import Asked, Listener, texts
from manydesks.testing.model.dialect import Pairing, Reply, items, model_of, parts
from manydesks.testing.model.openai import ERRORS, failure
from manydesks.testing.model.output import filled, namespaces, output
from manydesks.testing.model.sse import event

#: items by which the model spoke
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
RESULTS = tuple(f"{call}_output" for call in CALLS)


class Responses:
    ping = b": ping\n\n"

    def read(self, body: Mapping[str, Any], headers: Mapping[str, str], conversation: str) -> Asked:
        listener, pairing = Listener(), Pairing()
        listener.system += texts(body.get("instructions"))
        if isinstance(given := body.get("input"), str):
            listener.person(given)
        else:
            # Earlier items stay with the service: calls that results here refer to need not be here.
            goes_on = body.get("previous_response_id") is not None
            for item in items(body, "input"):
                self._hear(item, listener, None if goes_on else pairing)
            pairing.settled()
        return listener.asked("responses", body, conversation, _tools(body), model_of(body))

    def _hear(self, item: Mapping[str, Any], listener: Listener, pairing: Pairing | None) -> None:
        match item.get("type", "message"), item.get("role"):
            case "message", "user":
                for text in texts(item.get("content")):
                    listener.person(text)
            case "message", "assistant":
                listener.model()
            case "message", "system" | "developer":
                listener.system += texts(item.get("content"))
            case "message", role:
                raise BadInput(reason=f"a message's role must be user, assistant, system or developer, not '{role}'")
            case kind, _ if kind in CALLS:
                listener.model()
                if pairing is not None:
                    pairing.called(item.get("call_id"))
            case kind, _ if kind in RESULTS:
                if pairing is not None:
                    pairing.answered(item.get("call_id"))
                listener.results.append("\n".join(texts(item.get("output"))))
            case _:
                pass  # thoughts, and kinds that are still to be invented

    def whole(self, reply: Reply) -> dict[str, Any]:
        return self._response(reply, output(reply))

    def events(self, reply: Reply) -> Iterator[bytes]:
        numbers = count()

        def said(type: str, **data: Any) -> bytes:
            return event({"type": type, "sequence_number": next(numbers), **data}, type)

        begun = {**self._response(reply, []), "status": "in_progress", "incomplete_details": None, "usage": None}
        yield said("response.created", response=begun)
        yield said("response.in_progress", response=begun)
        done = output(reply)
        for index, item in enumerate(done):
            for type, data in filled(item, reply.turn.piece):
                yield said(type, output_index=index, **data)
        response = self._response(reply, done)
        yield said(f"response.{response['status']}", response=response)

    def failure(self, status: int, message: str, token: str) -> dict[str, Any]:
        return failure(status, message)

    def failed(self, reply: Reply, status: int, message: str, number: int) -> bytes:
        code = ERRORS.get(status, ("", None))[1] or "server_error"
        response = {
            **self._response(reply, []),
            "status": "failed",
            "incomplete_details": None,
            "usage": None,
            "error": {"code": code, "message": message},
        }
        return event({"type": "response.failed", "sequence_number": number, "response": response}, "response.failed")

    def _response(self, reply: Reply, output: list[dict[str, Any]]) -> dict[str, Any]:
        reasons = {"length": "max_output_tokens", "refusal": "content_filter"}
        reason = reasons.get(reply.turn.stops)
        body, usage = reply.asked.body, reply.turn.usage
        return {
            "id": f"resp_{reply.token}",
            "object": "response",
            "created_at": reply.created,
            "status": "completed" if reason is None else "incomplete",
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "instructions": body.get("instructions"),
            "metadata": {},
            "model": reply.asked.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": body.get("previous_response_id"),
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": {
                "input_tokens": reply.prompt,
                "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
                "output_tokens": reply.output,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": reply.prompt + reply.output,
            },
        }


def _tools(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in parts(body.get("tools")):
        if tool.get("type") != "namespace":
            yield str(tool.get("name") or tool.get("type"))
    for space, name in namespaces(body):
        yield f"{space}__{name}"
