"""A run on tape: what a real desk wrote, as lines, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Ack, Collected, Outbound, Step
from manydesks.runner.providers.base import Text, ToolCall, ToolResult, Usage
from manydesks.runner.tape import Answered, Failing, lines_of, read_tape


def step(seq: int, type: str, run: str = "run_1", **data: Any) -> Step:
    return Step(seq=seq, run=run, at=1, type=type, data=data)


def ack(seq: int, message: str, run: str = "run_1", **more: Any) -> Ack:
    return Ack(seq=seq, message=message, run=run, fence=1, at=1, **{"status": "completed", **more})


def out(seq: int, text: str, run: str = "run_1") -> Outbound:
    return Outbound(
        id=f"out_{seq}", seq=seq, run=run, fence=1, in_reply_to="m", at=1, kind="chat", content={"text": text}
    )


def page(*rows: Any) -> Collected:
    def of(kind: type) -> tuple[Any, ...]:
        return tuple(row for row in rows if isinstance(row, kind))

    return Collected(epoch="e", last_seq=99, messages=of(Outbound), acks=of(Ack), steps=of(Step))


def test_an_answer_is_what_was_written_with_its_acks() -> None:
    """What a tool sent is a write of its own; the numbers of one write follow one another, else one is missing."""
    pages = [
        page(
            step(1, "text", text="I look."), step(5, "tool_call", id="a", tool="send_message", arguments={"text": "x"})
        ),
        page(out(9, "x"), step(13, "usage", input=1, output=2), out(17, "Done."), ack(19, "m1"), ack(21, "m2")),
        page(ack(25, "m3"), out(29, "another run's", "run_2"), ack(31, "m9", "run_2")),
    ]
    assert lines_of(pages, "run_1") == [
        {"type": "text", "text": "I look."},
        {"type": "tool_call", "id": "a", "tool": "send_message", "arguments": {"text": "x"}},
        {"type": "usage", "input": 1, "output": 2},
        {"type": "answer", "text": "Done.", "messages": 2},
        {"type": "answer", "text": "", "messages": 1},
    ]
    assert lines_of(pages, "run_3") == []


def test_a_failure_is_on_the_tape_once() -> None:
    failed = ack(3, "m1", status="failed", failure="transient", reason="too busy", retry_after=2.5)
    lines = lines_of([page(step(1, "error", **{"class": "transient", "reason": "too busy"}), failed)], "run_1")
    assert lines == [{"type": "error", "class": "transient", "reason": "too busy", "retry_after": 2.5}]
    (take,) = read_tape(json.dumps(lines[0]))
    assert (take.steps, take.end) == ((), Failing(failure="transient", reason="too busy", retry_after=2.5))


def test_takes_end_with_an_answer_or_with_the_tape() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "text", "text": "one"},
        {"type": "answer", "text": "A", "messages": 2},
        {"type": "tool_call", "id": "i", "tool": "t", "arguments": {"x": 1}},
        {"type": "tool_result", "id": "i", "tool": "t", "ok": True, "result": [1], "duration_ms": 7},
        {"type": "usage", "input": 1, "output": None, "cost_usd": 0.5, "model": "m"},
    ]
    first, second = read_tape("\n\n".join(map(json.dumps, lines)))
    assert (first.steps, first.end) == ((Text(text="one"),), Answered(text="A", messages=2))
    assert second.end is None
    assert second.steps == (
        ToolCall(id="i", tool="t", arguments={"x": 1}),
        ToolResult(id="i", tool="t", ok=True, result=[1], duration_ms=7),
        Usage(input=1, output=None, cost_usd=0.5, model="m"),
    )


def test_a_step_that_was_too_long_for_its_row() -> None:
    (take,) = read_tape('{"type": "tool_call", "id": "i", "tool": "t", "omitted": "too long"}')
    assert take.steps == (ToolCall(id="i", tool="t", arguments={}),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("nonsense", "line 1 of the recording cannot be played: it is no JSON"),
        ('{"type": "text"}\n[]', "line 2 of the recording cannot be played: it is no object"),
        ('{"type": "song"}', "its type must be text, tool_call"),
        ('{"type": "answer", "text": 1}', "its text must be a text"),
        ('{"type": "tool_result", "id": "i", "tool": "t", "ok": 1}', "its ok must be true or false"),
        ('{"type": "usage", "input": true}', "its input must be a whole number"),
        ('{"type": "usage", "cost_usd": "1"}', "its cost_usd must be a number"),
        ('{"type": "error", "class": "odd"}', "its class must be transient, permanent, refused"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_what_is_no_tape(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read_tape(text)
