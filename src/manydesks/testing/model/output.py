"""The items that a response of OpenAI's is made of, whole and piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manydesks.testing.model.dialect import Reply, parts
from manydesks.testing.model.sse import pack, pieces
from manydesks.testing.model.turn import ToolCall

#: an event's type and its data
Said = tuple[str, dict[str, Any]]


def output(reply: Reply) -> list[dict[str, Any]]:
    turn = reply.turn
    made: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        made.append({"type": "reasoning", "id": f"rs_{reply.token}", "summary": summary})
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        made.append(
            {
                "type": "message",
                "id": f"msg_{reply.token}",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        )
    made.extend(_call(reply, number, call) for number, call in enumerate(turn.calls))
    return made


def namespaces(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Tools that are offered in a namespace: its name and theirs."""
    for space in parts(body.get("tools")):
        if space.get("type") == "namespace":
            yield from ((str(space.get("name")), str(tool.get("name"))) for tool in parts(space.get("tools")))


def _call(reply: Reply, number: int, call: ToolCall) -> dict[str, Any]:
    body = reply.asked.body
    made: dict[str, Any] = {
        "id": f"fc_{reply.token}_{number}",
        "call_id": f"call_{reply.token}_{number}",
        "status": "completed",
    }
    if any(tool.get("type") == "custom" and tool.get("name") == call.name for tool in parts(body.get("tools"))):
        # A tool that takes free text, such as codex's apply_patch.
        return {"type": "custom_tool_call", **made, "name": call.name, "input": str(call.arguments.get("input", ""))}
    made |= {"type": "function_call", "name": call.name, "arguments": pack(call.arguments).decode()}
    for space, name in namespaces(body):
        if call.name == f"{space}__{name}":  # codex knows such a tool by both names, and not by this one
            return made | {"name": name, "namespace": space}
    return made


def filled(item: dict[str, Any], size: int) -> Iterator[Said]:
    """An item as a stream gives it: announced, filled, done."""
    match item["type"]:
        case "reasoning":
            yield "response.output_item.added", {"item": {**item, "summary": []}}
            for index, part in enumerate(item["summary"]):
                yield from _summary({"item_id": item["id"], "summary_index": index}, part, size)
        case "message":
            yield "response.output_item.added", {"item": {**item, "status": "in_progress", "content": []}}
            for index, part in enumerate(item["content"]):
                yield from _text({"item_id": item["id"], "content_index": index}, part, size)
        case "custom_tool_call":
            yield "response.output_item.added", {"item": {**item, "status": "in_progress", "input": ""}}
            yield from _argument({"item_id": item["id"]}, "custom_tool_call_input", "input", item["input"], size)
        case _:
            yield "response.output_item.added", {"item": {**item, "status": "in_progress", "arguments": ""}}
            yield from _argument(
                {"item_id": item["id"]}, "function_call_arguments", "arguments", item["arguments"], size
            )
    yield "response.output_item.done", {"item": item}


def _summary(place: dict[str, Any], part: dict[str, Any], size: int) -> Iterator[Said]:
    yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}
    for piece in pieces(part["text"], size):
        yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
    yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**place, "part": part}


def _text(place: dict[str, Any], part: dict[str, Any], size: int) -> Iterator[Said]:
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in pieces(part["text"], size):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}


def _argument(place: dict[str, Any], type: str, key: str, text: str, size: int) -> Iterator[Said]:
    for piece in pieces(text, size):
        yield f"response.{type}.delta", {**place, "delta": piece}
    yield f"response.{type}.done", {**place, key: text}
