"""The rehearsal that plays a tape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Content, Inbound
from manydesks.runner.playback import Playback, recording_of
from manydesks.runner.providers.base import Answer, Failed, Station, Step, Text, ToolCall, ToolResult, Turn, Usage
from manydesks.runner.providers.rehearsal import PROVIDER, Rehearsal
from manydesks.runner.tools import registry

SENT = {"type": "tool_call", "id": "c1", "tool": "send_message", "arguments": {"text": "on my way"}}
GAVE = {"type": "tool_result", "id": "c1", "tool": "send_message", "ok": True, "result": {"messageId": 77}}
BASH = {"type": "tool_call", "id": "c2", "tool": "Bash", "arguments": {"command": "rm -r ."}}
RAN = {"type": "tool_result", "id": "c2", "tool": "Bash", "ok": True, "result": "gone", "duration_ms": 12}
ANSWER = {"type": "answer", "text": "Done. [@ben: go on]", "messages": 1}


def chat(id: str, *, trigger: bool = True) -> Inbound:
    content = {"sender": "Owner", "text": "!fail permanent"}
    return Inbound(id=id, run="r", fence=1, kind="chat", at=1, tries=1, content=content, trigger=trigger)


class Stage:
    """A workspace with a tape, and what was sent while it played."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.sent: list[Content] = []
        self.continuation: str | None = None

    def tape(self, *lines: dict[str, Any]) -> None:
        (self.workspace / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    async def _send(self, message: Inbound, kind: str, content: Content) -> int:
        self.sent.append(content)
        return 2 * len(self.sent) - 1

    async def play(self, *messages: Inbound) -> list[Step]:
        tools = registry.Toolbox(registry.find(), messages, self._send)
        turn = Turn(agent="a", name="A", messages=messages, tools=tools, continuation=self.continuation)
        station = Station(
            agent="a", name="A", workspace=self.workspace, state=self.workspace, options={"recording": "run.jsonl"}
        )
        steps = [step async for step in PROVIDER.load(station).turn(turn)]
        for step in steps:
            if isinstance(step, Answer) and step.continuation is not None:
                self.continuation = step.continuation
        return steps

    async def said(self, *ids: str) -> list[tuple[str, tuple[str, ...]]]:
        steps = await self.play(*map(chat, ids))
        return [(step.text, step.answers) for step in steps if isinstance(step, Answer)]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_everything_as_it_was(stage: Stage) -> None:
    usage = {"type": "usage", "input": 10, "output": 2, "cost_usd": 0.5, "model": "big"}
    stage.tape({"type": "text", "text": "I look."}, BASH, RAN, usage, ANSWER)
    *steps, answer = await stage.play(chat("m1"))
    assert steps == [
        Text(text="I look."),
        ToolCall(id="c2", tool="Bash", arguments={"command": "rm -r ."}),
        ToolResult(id="c2", tool="Bash", ok=True, result="gone", duration_ms=12),
        Usage(input=10, output=2, cost_usd=0.5, model="big"),
    ]
    assert isinstance(answer, Answer)
    assert (answer.text, answer.answers) == ("Done. [@ben: go on]", ("m1",))
    assert stage.sent == []


async def test_what_was_said_to_others_is_said_again(stage: Stage) -> None:
    stage.tape(SENT, GAVE, ANSWER)
    steps = await stage.play(chat("m1"))
    assert [content["text"] for content in stage.sent] == ["on my way"]
    assert steps[1] == ToolResult(id="c1", tool="send_message", ok=True, result={"messageId": 77}, duration_ms=0)


async def test_a_call_that_fails_now_says_so(stage: Stage) -> None:
    stage.tape({**SENT, "arguments": {"text": 1}}, GAVE, ANSWER)
    _, result, _ = await stage.play(chat("m1"))
    assert isinstance(result, ToolResult)
    assert (result.ok, result.result) == (False, "The argument 'text' of send_message must be of type string.")


async def test_a_call_that_had_failed_is_only_shown(stage: Stage) -> None:
    stage.tape(SENT, {**GAVE, "ok": False, "result": "no"}, ANSWER)
    _, result, _ = await stage.play(chat("m1"))
    assert isinstance(result, ToolResult)
    assert (result.ok, result.result, stage.sent) == (False, "no", [])


async def test_nobody_is_asked_again(stage: Stage) -> None:
    asked = {"type": "tool_call", "id": "q", "tool": "ask_user_question", "arguments": {"question": "Now?"}}
    stage.tape(
        asked, {"type": "tool_result", "id": "q", "tool": "ask_user_question", "ok": True, "result": "yes"}, ANSWER
    )
    assert len(await stage.play(chat("m1"))) == 3
    assert stage.sent == []


async def test_each_message_gets_the_next_take_and_then_the_first_again(stage: Stage) -> None:
    stage.tape({**ANSWER, "text": "one"}, {**ANSWER, "text": "two"}, {**ANSWER, "text": "three"})
    assert await stage.said("m1", "m2") == [("one", ("m1",)), ("two", ("m2",))]
    assert await stage.said("m3", "m4") == [("three", ("m3",)), ("one", ("m4",))]
    stage.tape({**ANSWER, "text": "another tape"}, {**ANSWER, "text": "its end"})
    assert await stage.said("m5") == [("another tape", ("m5",))]


async def test_an_answer_covers_as_many_as_it_did(stage: Stage) -> None:
    stage.tape({**ANSWER, "text": "both", "messages": 2}, {**ANSWER, "text": "one"})
    assert await stage.said("m1", "m2", "m3") == [("both", ("m1", "m2")), ("one", ("m3",))]
    assert await stage.said("m4") == [("both", ("m4",))]


async def test_context_wants_no_answer(stage: Stage) -> None:
    stage.tape({**ANSWER, "messages": 2})
    steps = await stage.play(chat("m1", trigger=False), chat("m2"), chat("m3", trigger=False), chat("m4"))
    assert [step.answers for step in steps if isinstance(step, Answer)] == [("m1",), ("m2", "m4"), ("m3",)]


@pytest.mark.parametrize("failure", ["transient", "permanent", "refused"])
async def test_a_failure_is_the_same_each_time(stage: Stage, failure: str) -> None:
    error = {"type": "error", "class": failure, "reason": "too busy", "retry_after": 3}
    stage.tape({"type": "text", "text": "I try."}, error, ANSWER)
    for _ in range(2):
        steps = await stage.play(chat("m1"), chat("m2"))
        assert steps[-1] == Failed(failure=failure, reason="too busy", message="m1", retry_after=3)  # type: ignore[arg-type]
        assert len(steps) == 2


async def test_a_run_whose_runner_died(stage: Stage) -> None:
    stage.tape({"type": "text", "text": "I try."})
    last = (await stage.play(chat("m1")))[-1]
    assert isinstance(last, Failed)
    assert (last.failure, last.reason) == ("transient", "the recorded run had no end: its runner died there")


async def test_a_tape_that_cannot_be_played(stage: Stage) -> None:
    async def refused() -> str:
        [step] = await stage.play(chat("m1"))
        assert isinstance(step, Failed)
        assert step.failure == "permanent"
        return step.reason

    assert "there is no 'run.jsonl'" in await refused()
    (stage.workspace / "run.jsonl").write_text("nonsense")
    assert "line 1 of the recording cannot be played" in await refused()
    (stage.workspace / "run.jsonl").unlink()
    (stage.workspace / "run.jsonl").symlink_to("/etc/passwd")
    assert "is a symbolic link" in await refused()


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../other/run.jsonl", 7, ["x"]])
def test_a_path_that_is_none(path: Any) -> None:
    with pytest.raises(BadInput, match="'recording' must be the path of a file in the agent's workspace"):
        PROVIDER.read({"recording": path})


def test_without_a_recording_it_obeys(tmp_path: Path) -> None:
    assert recording_of({}) is None
    assert isinstance(PROVIDER.load(Station(agent="a", name="A", workspace=tmp_path, state=tmp_path)), Rehearsal)
    options = {"recording": "tapes/x.jsonl"}
    station = Station(agent="a", name="A", workspace=tmp_path, state=tmp_path, options=options)
    assert isinstance(PROVIDER.load(station), Playback)
