from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from manydesks.domain.address import Tag, parse
from manydesks.domain.errors import RunnerCrashed
from manydesks.domain.mail import Content, Inbound
from manydesks.runner.providers.base import Answer, Failed, Step, ToolCall, ToolResult, Turn, Usage
from manydesks.runner.providers.rehearsal import Rehearsal
from manydesks.runner.tools import registry


def chat(text: str, *, id: str = "m1", tries: int = 1, trigger: bool = True) -> Inbound:
    content = {"sender": "Owner", "text": text}
    return Inbound(id=id, run="r", fence=1, kind="chat", at=1, tries=tries, content=content, trigger=trigger)


class Stage:
    """Runs turns and remembers what was sent and slept."""

    def __init__(self) -> None:
        self.sent: list[Content] = []
        self.slept: list[float] = []

    async def _send(self, message: Inbound, kind: str, content: Content) -> int:
        self.sent.append(content)
        return 2 * len(self.sent) - 1

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def play(self, *messages: Inbound) -> list[Step]:
        tools = registry.Toolbox(registry.find(), messages, self._send)
        turn = Turn(agent="coder", name="Coder", messages=messages, tools=tools)
        return [step async for step in Rehearsal(sleep=self._sleep).turn(turn)]

    async def answer(self, text: str, **changes: Any) -> str:
        last = (await self.play(chat(text, **changes)))[-1]
        assert isinstance(last, Answer)
        return last.text


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_plain_text_is_echoed_with_both_names(stage: Stage) -> None:
    text = await stage.answer("what now?\nsecond line")
    assert "Coder" in text
    assert "Owner" in text
    assert text.endswith("what now?\nsecond line")


@pytest.mark.parametrize(
    "text",
    ["[@reviewer: look]", "[#team: all]", "\\\\[@a: x]", "[@a: [@b: c]]", "[@a: x] -> [@b: y]", "x [@a,b: y"],
)
async def test_an_echo_hands_nothing_over(stage: Stage, text: str) -> None:
    parsed = parse(await stage.answer(text))
    assert not [piece for piece in parsed.pieces if isinstance(piece, Tag)]
    assert parsed.unclosed == ()


async def test_an_echo_reads_like_the_text_it_was_given(stage: Stage) -> None:
    parsed = parse(await stage.answer("ask [@reviewer: look] please"))
    assert "".join(
        piece.text for piece in parsed.pieces if not isinstance(piece, Tag) and hasattr(piece, "text")
    ).endswith("ask [@reviewer: look] please")


async def test_say_is_exact_and_several_are_joined(stage: Stage) -> None:
    assert await stage.answer("!say [@reviewer: go]") == "[@reviewer: go]"
    assert await stage.answer("intro\n!say one\n!say two") == "one\ntwo"


async def test_an_unknown_word_is_text(stage: Stage) -> None:
    assert (await stage.answer("!important: read this")).endswith("!important: read this")
    assert (await stage.answer("! say x")).endswith("! say x")


async def test_sleep_takes_its_time(stage: Stage) -> None:
    assert await stage.answer("!sleep 1.5\n!say ok") == "ok"
    assert stage.slept == [1.5]


@pytest.mark.parametrize("failure", ["transient", "permanent"])
async def test_fail_fails(stage: Stage, failure: str) -> None:
    [step] = await stage.play(chat(f"!fail {failure} no more tokens"))
    assert step == Failed(failure=failure, reason="no more tokens", message="m1")  # type: ignore[arg-type]


async def test_fail_has_a_reason_of_its_own(stage: Stage) -> None:
    [step] = await stage.play(chat("!fail transient"))
    assert isinstance(step, Failed)
    assert step.reason


async def test_fail_times_counts_attempts(stage: Stage) -> None:
    outcomes = [type((await stage.play(chat("!fail_times 2\n!say ok", tries=tries)))[-1]) for tries in (1, 2, 3)]
    assert outcomes == [Failed, Failed, Answer]


async def test_crash_is_the_end_of_the_runner(stage: Stage) -> None:
    with pytest.raises(RunnerCrashed):
        await stage.play(chat("!crash"))


async def test_hang_never_ends(stage: Stage) -> None:
    task = asyncio.create_task(stage.play(chat("!sleep 0\n!hang\n!say x")))
    for _ in range(20):
        await asyncio.sleep(0)
    assert stage.slept == [0]
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_usage_is_reported(stage: Stage) -> None:
    steps = await stage.play(chat("!usage 10 20 0.25\n!usage 1 2"))
    assert steps[:2] == [
        Usage(input=10, output=20, cost_usd=0.25, model="rehearsal"),
        Usage(input=1, output=2, cost_usd=None, model="rehearsal"),
    ]


async def test_pingpong_addresses_the_other_with_its_own_name(stage: Stage) -> None:
    assert await stage.answer("!pingpong reviewer") == "[@reviewer: !pingpong coder]"


async def test_a_tool_is_called_and_its_result_shown(stage: Stage) -> None:
    call, result, answer = await stage.play(chat('!tool send_message {"text": "soon"}'))
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert isinstance(answer, Answer)
    assert (call.tool, call.arguments, result.id, result.ok) == ("send_message", {"text": "soon"}, call.id, True)
    assert stage.sent == [{"text": "soon", "files": []}]
    assert "send_message gave:" in answer.text


async def test_a_wrong_tool_is_a_result_and_the_turn_goes_on(stage: Stage) -> None:
    _, result, answer = await stage.play(chat("!tool nothing {}\n!say ok"))
    assert isinstance(result, ToolResult)
    assert not result.ok
    assert "send_message" in result.result
    assert answer == Answer(text="ok", answers=("m1",))


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("!sleep abc", "SECONDS"),
        ("!sleep -1", "SECONDS"),
        ("!sleep nan", "SECONDS"),
        ("!sleep", "SECONDS"),
        ("!fail", "transient|permanent"),
        ("!fail maybe", "transient|permanent"),
        ("!fail_times x", "whole number"),
        ("!tool x {bad", "JSON"),
        ("!tool x [1]", "an object"),
        ("!tool", "NAME JSON"),
        ("!usage 1", "IN OUT"),
        ("!usage 1 -2", "IN OUT"),
        ("!usage 1 2 inf", "IN OUT"),
        ("!crash now", "alone"),
        ("!pingpong a b", "id of an agent"),
        ("!pingpong", "id of an agent"),
    ],
)
async def test_a_malformed_line_fails_for_good_and_says_what_is_allowed(stage: Stage, line: str, allowed: str) -> None:
    last = (await stage.play(chat(f"{line}\n!say x")))[-1]
    assert isinstance(last, Failed)
    assert last.failure == "permanent"
    assert line in last.reason
    assert allowed in last.reason


async def test_messages_are_taken_one_by_one_and_a_failed_one_ends_the_batch(stage: Stage) -> None:
    steps = await stage.play(chat("!say a", id="m1"), chat("!fail permanent x", id="m2"), chat("!say c", id="m3"))
    assert _ids(steps) == [("Answer", "m1"), ("Failed", "m2")]


async def test_context_is_taken_in_silence(stage: Stage) -> None:
    steps = await stage.play(chat("!fail permanent", id="m1", trigger=False), chat("!say b", id="m2"))
    assert steps == [Answer(text="", answers=("m1",)), Answer(text="b", answers=("m2",))]


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("task", {"prompt": "water the plants", "schedule": "daily"}, ["daily", "water the plants"]),
        ("webhook", {"source": "ci", "payload": {"ok": 1}}, ["ci", '{"ok": 1}']),
        ("system", {"action": "x", "result": "granted"}, ["the office", "granted"]),
        ("chat", {}, ["an unnamed chat"]),
    ],
)
async def test_every_kind_is_echoed(stage: Stage, kind: str, content: Content, expected: list[str]) -> None:
    row = Inbound(id="m1", run="r", fence=1, kind=kind, at=1, tries=1, content=content)
    [answer] = await stage.play(row)
    assert isinstance(answer, Answer)
    for part in expected:
        assert part in answer.text


def _ids(steps: Sequence[Step]) -> list[tuple[str, str]]:
    return [
        (type(step).__name__, step.message if isinstance(step, Failed) else step.answers[0])
        for step in steps
        if isinstance(step, Answer | Failed)
    ]
