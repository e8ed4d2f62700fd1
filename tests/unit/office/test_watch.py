from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.mail import Collected, Outbound, Step
from manydesks.domain.stuck import Fine, Interrupt, Kill, Patience
from manydesks.office.watch import QUESTION_MS, TOOL_MS, Watch
from manydesks.testing.clock import ManualClock

PATIENCE = Patience(run_ms=100_000, silence_ms=10_000, heartbeat_ms=60_000)


class Run:
    def __init__(self, patience: Patience = PATIENCE) -> None:
        self.clock = ManualClock()
        self.watch = Watch("run_1", patience, self.clock, same_calls=3)
        self._seq = 1

    def step(self, type: str, run: str = "run_1", **data: Any) -> None:
        self._seq += 2
        step = Step(seq=self._seq, run=run, at=0, type=type, data=data)
        self.watch.seen(Collected(epoch="e", last_seq=self._seq, steps=(step,)))

    def ask(self) -> None:
        self._seq += 2
        content = {"operation": "ask_question", "question": "Blue?"}
        row = Outbound(
            id="out_1", run="run_1", fence=1, at=0, kind="chat", content=content, in_reply_to=None, seq=self._seq
        )
        self.watch.seen(Collected(epoch="e", last_seq=self._seq, messages=(row,)))

    def verdict(self, *, asks: bool = False) -> Fine | Interrupt | Kill:
        """With a heart that beats."""
        return self.watch.verdict(self.clock.now(), asks=asks)


def test_time_begins_when_the_desk_has_the_messages() -> None:
    run = Run()
    run.clock.advance(1_000_000)  # the disk was full
    run.watch.handed()
    assert run.watch.verdict(None) == Fine()
    run.clock.advance(60_001)
    assert isinstance(run.watch.verdict(None), Kill)


def test_a_run_that_shows_nothing() -> None:
    run = Run()
    run.clock.advance(10_001)
    assert isinstance(run.verdict(), Interrupt)
    run.watch.interrupted()
    assert run.verdict() == Fine()
    run.clock.advance(10_001)
    assert isinstance(run.verdict(), Kill)


def test_whatever_is_written_or_shown_is_a_sign_of_life() -> None:
    run = Run()
    for show in (lambda: run.step("text", text="x"), run.watch.stirred):
        run.clock.advance(10_000)
        show()
        run.clock.advance(10_000)
        assert run.verdict() == Fine()
    # what an earlier run left says nothing about this one
    run.step("text", run="run_0", text="x")
    run.clock.advance(1)
    assert isinstance(run.verdict(), Interrupt)


def test_a_tool_that_said_how_long_it_takes() -> None:
    run = Run()
    run.step("tool_call", id="1", tool="Bash", arguments={"command": "make", "timeout": 20_000})
    run.clock.advance(30_000)
    assert run.verdict() == Fine()
    run.clock.advance(1)
    assert isinstance(run.verdict(), Interrupt)


def test_a_tool_that_has_answered_gives_no_more_time() -> None:
    run = Run()
    run.step("tool_call", id="1", tool="Bash", arguments={"timeout": 20_000})
    run.step("tool_result", id="1", tool="Bash", ok=True, result="", duration_ms=1)
    run.clock.advance(10_001)
    assert isinstance(run.verdict(), Interrupt)


def test_nobody_may_ask_for_a_year() -> None:
    run = Run()
    for arguments in ({"timeout": "soon"}, {"timeout": True}, {"timeout": -1}, "no", None):
        run.step("tool_call", id=str(arguments), tool="Bash", arguments=arguments)
    run.clock.advance(10_002)
    assert isinstance(run.verdict(), Interrupt)


@pytest.mark.parametrize("arguments", [{"timeout": 10**400}, {"timeout": float("inf")}, {"timeout_seconds": 90_000}])
def test_who_asks_for_a_year_gets_six_hours(arguments: dict[str, object]) -> None:
    run = Run(replace(PATIENCE, run_ms=2 * TOOL_MS))
    run.step("tool_call", id="1", tool="Bash", arguments=arguments)
    run.clock.advance(TOOL_MS)
    assert run.verdict() == Fine()
    run.clock.advance(10_001)
    assert isinstance(run.verdict(), Interrupt)


def test_a_question_waits_for_its_person_and_the_time_is_not_the_runs() -> None:
    run = Run()
    run.clock.advance(5_000)
    assert run.verdict() == Fine()
    run.ask()
    for _ in range(50):
        run.clock.advance(10_001)
        assert run.verdict(asks=True) == Fine()
    run.clock.advance(9_999)
    assert run.verdict() == Fine()
    run.clock.advance(2)
    assert isinstance(run.verdict(), Interrupt)


def test_a_question_holds_nobody_longer_than_its_tool_waits() -> None:
    run = Run()
    run.ask()
    run.clock.advance(QUESTION_MS)
    assert run.verdict(asks=True) == Fine()
    run.clock.advance(10_001)
    assert isinstance(run.verdict(asks=True), Interrupt)


def test_a_call_that_is_only_named_like_a_question_gives_no_time() -> None:
    """What a desk says of its tools is its own word; the office knows which questions were asked."""
    run = Run()
    run.step("tool_call", id="1", tool="mcp__manydesks__ask_user_question", arguments={"question": "Blue?"})
    run.clock.advance(10_001)
    assert isinstance(run.verdict(), Interrupt)


def test_a_heart_that_stopped() -> None:
    run = Run()
    beat = run.clock.now()
    run.clock.advance(60_001)
    run.watch.stirred()
    assert isinstance(run.watch.verdict(beat), Kill)
    assert isinstance(run.watch.verdict(None), Kill)
    assert run.verdict() == Fine()


def test_a_circle_is_remembered() -> None:
    run = Run()
    for number in range(3):
        assert run.watch.circle is None
        run.step("tool_call", id=str(number), tool="Read", arguments={"path": "x"})
    assert run.watch.circle is not None
    run.step("tool_call", id="9", tool="Read", arguments={"path": "y"})
    assert "Read 3 times" in run.watch.circle
