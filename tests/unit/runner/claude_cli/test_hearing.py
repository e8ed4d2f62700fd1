from __future__ import annotations

from typing import Any

from manydesks.runner.providers.base import Progress, Step, Text, ToolCall, ToolResult
from manydesks.runner.providers.claude_cli.hearing import Hearing


def assistant(*blocks: dict[str, Any], model: str = "m", parent: str | None = None) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": model, "content": list(blocks)}, "parent_tool_use_id": parent}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(id: str, name: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {"a": 1}}


def result(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": content, **more}]},
    }


def heard(hearing: Hearing, *lines: tuple[dict[str, Any], float]) -> list[Step]:
    return [step for line, at in lines for step in hearing.steps(line, at)]


def test_the_last_text_is_held_back_for_the_answer() -> None:
    hearing = Hearing()
    assert heard(hearing, (assistant(said("one")), 0), (assistant(said("two")), 0)) == [Text(text="one")]
    assert list(hearing.answer("two\n")) == []
    assert heard(hearing, (assistant(said("three")), 0)) == []
    assert list(hearing.answer("something else")) == [Text(text="three")]


def test_tools_have_ids_names_and_durations() -> None:
    hearing = Hearing()
    steps = heard(
        hearing,
        (assistant(said("look"), call("1", "mcp__manydesks__send_message"), call("2")), 10.0),
        (result("2", [said("a"), {"type": "image", "source": {}}, said("b")]), 10.25),
    )
    assert steps == [
        Text(text="look"),
        ToolCall(id="1", tool="send_message", arguments={"a": 1}),
        ToolCall(id="2", tool="Bash", arguments={"a": 1}),
        ToolResult(id="2", tool="Bash", ok=True, result="a\n(image)\nb", duration_ms=250),
    ]
    assert hearing.at_work
    [last] = heard(hearing, (result("1", "no", is_error=True), 11.0))
    assert last == ToolResult(id="1", tool="send_message", ok=False, result="no", duration_ms=1000)
    assert not hearing.at_work


def test_progress_is_text_of_the_main_thread_only() -> None:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "He"}}
    line = {"type": "stream_event", "event": event, "parent_tool_use_id": None}
    assert heard(Hearing(), (line, 0), ({**line, "parent_tool_use_id": "1"}, 0)) == [Progress(text="He")]
    other = {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm"}}
    assert heard(Hearing(), ({**line, "event": other}, 0)) == []


def test_words_of_the_program_are_not_the_agents() -> None:
    hearing = Hearing()
    assert heard(hearing, (assistant(said("API Error: 529"), model="<synthetic>"), 0)) == []
    assert list(hearing.answer("x")) == []
    assert hearing.program == "API Error: 529"


def test_nonsense_is_nothing() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "assistant"},
        {"type": "assistant", "message": {"content": "text"}},
        {"type": "assistant", "message": {"content": [7, {}, {"type": "text"}]}},
        {"type": "user", "message": {"content": [7]}},
        {"type": "stream_event", "event": None},
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": 7}},
        {"type": "news"},
    ]
    assert heard(Hearing(), *((line, 0.0) for line in lines)) == []
