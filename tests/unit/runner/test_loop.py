from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import MailboxError, RunnerCrashed
from manydesks.domain.mail import Ack, Collected, Control, Inbound, Written
from manydesks.mailbox import outbox
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.loop import Runner
from manydesks.runner.providers.base import Answer, Failed, Provider, Step, Text, ToolCall, ToolResult, Turn, Usage
from manydesks.runner.providers.rehearsal import Rehearsal
from manydesks.runner.tools.base import Means
from manydesks.testing.clock import ManualClock
from manydesks.testing.mailbox import MemoryMailbox


class Scripted:
    """A provider whose turns are written in the test."""

    def __init__(self, *turns: Callable[[Turn], AsyncIterator[Step]]) -> None:
        self.turns = list(turns)
        self.seen: list[Turn] = []

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        self.seen.append(batch)
        async for step in self.turns[len(self.seen) - 1](batch):
            yield step


class Office:
    """A runner on an in-memory mailbox, and the host's side of it."""

    def __init__(self, provider: Provider, **changes: Any) -> None:
        self.clock = ManualClock()
        self.box = MemoryMailbox(clock=self.clock)
        self.box.desk.open()
        self.nudge = asyncio.Event()
        self.output = asyncio.Event()
        self.outputs = 0
        values: dict[str, Any] = {
            "agent": "coder",
            "name": "Coder",
            "clock": self.clock,
            "nudge": self.nudge,
            "on_output": self._on_output,
            "idle_seconds": 1800,
            "poll_seconds": 60,
        }
        self.runner = Runner(self.box.desk, provider, **values | changes)

    def _on_output(self) -> None:
        self.outputs += 1
        self.output.set()

    def put(self, *rows: Inbound) -> None:
        self.box.host.put(rows)
        self.nudge.set()

    def collected(self) -> Collected:
        found = self.box.host.collect(None, 0)
        assert found is not None
        return found

    async def until(self, condition: Callable[[Collected], bool]) -> Collected:
        """Wake at every output until it is so."""
        async with asyncio.timeout(20):
            while True:
                self.output.clear()
                if condition(found := self.collected()):
                    return found
                await self.output.wait()

    async def stop(self, task: asyncio.Task[str], **data: Any) -> str:
        self.box.host.control("stop", data)
        self.nudge.set()
        async with asyncio.timeout(20):
            return await task


def message(id: str, text: str = "hi", *, fence: int = 1, tries: int = 1, trigger: bool = True) -> Inbound:
    return Inbound(
        id=id,
        run=f"run_{fence}",
        fence=fence,
        kind="chat",
        at=1,
        tries=tries,
        trigger=trigger,
        content={"sender": "Owner", "text": text},
    )


def statuses(acks: Sequence[Ack]) -> list[tuple[str, str, str | None]]:
    return [(ack.message, ack.status, ack.failure) for ack in acks]


async def drive(office: Office, acks: int) -> Collected:
    """Run until so many acks are there, then stop."""
    task = asyncio.create_task(office.runner.run())
    collected = await office.until(lambda found: len(found.acks) >= acks)
    assert await office.stop(task) == "stopped"
    return collected


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_an_answer_and_its_acks_are_one_write() -> None:
    async def both(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="for both", answers=("m1", "m2"))

    office = Office(Scripted(both))
    office.put(message("m1"), message("m2"))
    collected = await drive(office, 2)
    assert office.outputs == 1
    [row] = collected.messages
    assert (row.in_reply_to, row.run, row.fence, row.kind, row.content) == (
        "m1",
        "run_1",
        1,
        "chat",
        {"text": "for both", "files": []},
    )
    assert row.id.startswith("out_")
    assert statuses(collected.acks) == [("m1", "completed", None), ("m2", "completed", None)]


async def test_steps_are_written_as_they_come() -> None:
    seen: list[str] = []

    async def steps(batch: Turn) -> AsyncIterator[Step]:
        for step in (
            Text(text="let me see"),
            ToolCall(id="t1", tool="look", arguments={"a": 1}),
            ToolResult(id="t1", tool="look", ok=True, result=[1], duration_ms=5),
            Usage(input=10, output=2, cost_usd=0.5, model="m"),
        ):
            yield step
            seen.append(office.collected().steps[-1].type)
        yield Answer(text="done", answers=("m1",))

    office = Office(Scripted(steps))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert seen == ["text", "tool_call", "tool_result", "usage"]
    assert [row.data for row in collected.steps] == [
        {"text": "let me see"},
        {"id": "t1", "tool": "look", "arguments": {"a": 1}},
        {"id": "t1", "tool": "look", "ok": True, "result": [1], "duration_ms": 5},
        {"input": 10, "output": 2, "cache_read": None, "cache_write": None, "cost_usd": 0.5, "model": "m"},
    ]
    assert office.outputs == 5


async def test_an_empty_answer_completes_in_silence() -> None:
    async def silent(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text=" \n", answers=("m1",))

    office = Office(Scripted(silent))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert collected.messages == ()
    assert statuses(collected.acks) == [("m1", "completed", None)]


async def test_rows_of_different_claims_are_different_turns_and_the_rest_of_a_turn_is_asked_again() -> None:
    async def first_only(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="one", answers=(batch.messages[0].id,))

    provider = Scripted(first_only, first_only, first_only)
    office = Office(provider)
    office.put(message("m1"), message("m2"), message("m3", fence=2))
    await drive(office, 3)
    assert [[row.id for row in turn.messages] for turn in provider.seen] == [["m1", "m2"], ["m2"], ["m3"]]
    assert (provider.seen[0].agent, provider.seen[0].name) == ("coder", "Coder")


async def test_a_continuation_is_proposed_with_the_answer_and_given_to_the_next_turn() -> None:
    def says(token: str) -> Callable[[Turn], AsyncIterator[Step]]:
        async def turn(batch: Turn) -> AsyncIterator[Step]:
            yield Answer(text="x", answers=(batch.messages[0].id,), continuation=token)

        return turn

    provider = Scripted(says("c1"), says("c2"))
    office = Office(provider, continuation="c0")
    office.put(message("m1"), message("m2", fence=2))
    collected = await drive(office, 2)
    assert [turn.continuation for turn in provider.seen] == ["c0", "c1"]
    assert collected.state == {"continuation": "c2"}


async def test_half_characters_of_a_provider_do_not_stop_its_answer() -> None:
    async def broken(batch: Turn) -> AsyncIterator[Step]:
        yield Text(text="a\ud800")
        yield Answer(text="b\udfff", answers=("m1",))

    office = Office(Scripted(broken))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert collected.messages[0].content["text"] == "b?"
    assert collected.steps[0].data == {"text": "a?"}


@pytest.mark.parametrize("letter", ["x", "\0", "\U0001f600", '"'])
async def test_an_answer_that_no_row_takes_is_cut_and_goes_along_as_a_file(tmp_path: Path, letter: str) -> None:
    whole = letter * (1 << 20)

    async def huge(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text=whole, answers=("m1",))

    (tmp_path / "out" / "outbox").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    office = Office(Scripted(huge), means=Means(workspace=tmp_path, outbox=tmp_path / "out" / "outbox"))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert statuses(collected.acks) == [("m1", "completed", None)]
    (row,) = collected.messages
    assert row.content["text"].startswith(whole[:100_000])
    assert row.content["text"].endswith(
        "(The answer has 1048576 characters, too many for a message: all of it is in answer.txt.)"
    )
    assert row.content["files"] == ["answer.txt"]
    taken = outbox.collect(tmp_path, row.id, "answer.txt", tmp_path / "files")
    assert (tmp_path / taken.path).read_text() == whole


async def test_a_long_answer_that_fits_is_said_whole(tmp_path: Path) -> None:
    async def long(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="x" * 1_000_000, answers=("m1",))

    office = Office(Scripted(long), means=Means(outbox=tmp_path))
    office.put(message("m1"))
    (row,) = (await drive(office, 1)).messages
    assert row.content == {"text": "x" * 1_000_000, "files": []}


async def test_an_answer_that_cannot_be_kept_whole_says_so(tmp_path: Path) -> None:
    async def huge(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="x" * (1 << 20), answers=("m1",))

    for folder, why in ((None, "this desk sends no files"), (tmp_path / "gone", "its folder cannot be opened")):
        office = Office(Scripted(huge), means=Means(outbox=folder))
        office.put(message("m1"))
        collected = await drive(office, 1)
        assert statuses(collected.acks) == [("m1", "completed", None)]
        assert f"the rest could not be kept: {why}" in collected.messages[0].content["text"]
        assert collected.messages[0].content["files"] == []


async def test_a_step_that_is_too_large_is_cut_and_the_turn_goes_on() -> None:
    async def chatty(batch: Turn) -> AsyncIterator[Step]:
        yield ToolResult(id="t", tool="cat", ok=True, result="y" * 3_000_000, duration_ms=1)
        yield ToolResult(id="t", tool="ls", ok=True, result=["z" * 90_000] * 50, duration_ms=1)
        yield Answer(text="done", answers=("m1",))

    office = Office(Scripted(chatty))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert collected.steps[0].data["result"].endswith("(3000000 characters in all)")
    assert collected.steps[1].data["tool"] == "ls"
    assert "larger" in collected.steps[1].data["omitted"]


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_a_failure_is_acked_with_its_class_and_ends_the_turn() -> None:
    async def limited(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="one", answers=("m1",))
        yield Failed(failure="transient", reason="429", message="m2", retry_after=7)
        raise AssertionError("a turn that has failed is not asked for more")

    office = Office(Scripted(limited))
    office.put(message("m1"), message("m2"), message("m3"))
    collected = await drive(office, 2)
    assert statuses(collected.acks) == [("m1", "completed", None), ("m2", "failed", "transient")]
    assert (collected.acks[1].reason, collected.acks[1].retry_after) == ("429", 7)
    assert [row.type for row in collected.steps] == ["error"]
    assert office.box.desk.waiting() == []


async def test_what_a_provider_raises_fails_the_first_open_message_as_transient() -> None:
    async def raising(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="one", answers=("m1",))
        raise KeyError("gone")

    office = Office(Scripted(raising))
    office.put(message("m1"), message("m2"))
    collected = await drive(office, 2)
    assert statuses(collected.acks) == [("m1", "completed", None), ("m2", "failed", "transient")]
    assert collected.acks[1].reason == "crash: KeyError: 'gone'"


@pytest.mark.parametrize("answers", [("other",), (), ("m1", "m1")])
async def test_an_answer_to_what_was_not_asked_is_a_crash_of_the_provider(answers: tuple[str, ...]) -> None:
    async def confused(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="x", answers=answers)

    office = Office(Scripted(confused))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert collected.messages == ()
    assert statuses(collected.acks) == [("m1", "failed", "transient")]


async def test_a_turn_without_an_answer_is_a_failure_not_a_circle() -> None:
    async def nothing(batch: Turn) -> AsyncIterator[Step]:
        yield Text(text="hm")

    office = Office(Scripted(nothing))
    office.put(message("m1"))
    collected = await drive(office, 1)
    assert statuses(collected.acks) == [("m1", "failed", "transient")]
    assert "without an answer" in (collected.acks[0].reason or "")


async def test_a_crashed_runner_leaves_no_ack() -> None:
    office = Office(Rehearsal())
    office.put(message("m1", "!crash"))
    with pytest.raises(RunnerCrashed):
        await office.runner.run()
    assert office.collected().acks == ()
    assert [row.id for row in office.box.desk.waiting()] == ["m1"]


async def test_a_cancelled_runner_leaves_no_ack_and_closes_its_provider() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def hanging(batch: Turn) -> AsyncIterator[Step]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield Text(text="never")
        finally:
            closed.set()

    office = Office(Scripted(hanging))
    office.put(message("m1"))
    task = asyncio.create_task(office.runner.run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()
    assert office.collected().acks == ()


async def test_a_runner_that_has_ended_writes_no_more() -> None:
    """A write is in a thread, which cannot be cancelled: the runner's end waits for it."""
    writing, goon = threading.Event(), threading.Event()

    class Slow(type(MemoryMailbox().desk)):  # type: ignore[misc]
        def write(self, **rows: Any) -> Any:
            writing.set()
            assert goon.wait(20)
            return super().write(**rows)

    office = Office(Rehearsal())
    runner = Runner(
        Slow(office.box),
        Rehearsal(),
        agent="coder",
        clock=office.clock,
        nudge=office.nudge,
        on_output=office._on_output,
        idle_seconds=1800,
        poll_seconds=60,
    )
    office.put(message("m1"))
    task = asyncio.create_task(runner.run())
    assert await asyncio.to_thread(writing.wait, 20)
    task.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    goon.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert statuses(office.collected().acks) == [("m1", "completed", None)]
    assert office.outputs == 1


class Counted(type(MemoryMailbox().desk)):  # type: ignore[misc]
    looks = 0

    def look(self, after: int) -> tuple[list[Control], list[Inbound]]:
        self.looks += 1
        found: tuple[list[Control], list[Inbound]] = super().look(after)
        return found


@pytest.mark.parametrize(("sure", "looks"), [(True, 1), (False, 2)])
async def test_who_is_sure_of_nudges_does_not_look_again_after_a_turn(sure: bool, looks: int) -> None:
    office = Office(Rehearsal())
    desk = Counted(office.box)
    waits = asyncio.Event()

    class Nudge(asyncio.Event):
        async def wait(self) -> Literal[True]:
            if office.outputs:
                waits.set()
            return await super().wait()

    nudge = Nudge()
    values = {"on_output": office._on_output, "idle_seconds": 1800, "poll_seconds": 60, "sure_of_nudges": sure}
    runner = Runner(desk, Rehearsal(), agent="coder", clock=office.clock, nudge=nudge, **values)
    office.box.host.put([message("m1")])
    task = asyncio.create_task(runner.run())
    async with asyncio.timeout(20):
        await waits.wait()
    assert desk.looks == looks
    # and whatever comes then is found
    office.box.host.put([message("m2", fence=2)])
    nudge.set()
    await office.until(lambda found: len(found.acks) == 2)
    task.cancel()


async def test_who_is_sure_of_nudges_looks_again_if_one_came_in_the_turn() -> None:
    heard = asyncio.Event()

    class Nudge(asyncio.Event):
        def clear(self) -> None:
            super().clear()
            heard.set()

    async def first(batch: Turn) -> AsyncIterator[Step]:
        heard.clear()
        office.put(message("m2", fence=2))
        await heard.wait()
        yield Answer(text="one", answers=("m1",))

    async def second(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="two", answers=("m2",))

    nudge = Nudge()
    office = Office(Scripted(first, second), sure_of_nudges=True, nudge=nudge)
    office.nudge = nudge
    office.put(message("m1"))
    assert statuses((await drive(office, 2)).acks) == [("m1", "completed", None), ("m2", "completed", None)]


async def test_who_is_sure_of_nudges_takes_up_what_a_turn_left_open() -> None:
    async def half(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="one", answers=("m1",))

    async def rest(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="two", answers=("m2",))

    async def other(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="three", answers=("m3",))

    office = Office(Scripted(half, rest, other), sure_of_nudges=True)
    office.put(message("m1"), message("m2"), message("m3", fence=2))
    assert [ack.message for ack in (await drive(office, 3)).acks] == ["m1", "m2", "m3"]


async def test_a_message_that_comes_with_the_last_look_of_an_idle_runner_is_not_left_lying() -> None:
    class Late(type(MemoryMailbox().desk)):  # type: ignore[misc]
        looks = 0

        def waiting(self) -> list[Inbound]:
            rows: list[Inbound] = super().waiting()
            self.looks += 1
            if self.looks == 1:  # just after the look: put and nudge, as the host does
                office.box.host.put([message("m1")])
                loop.call_soon_threadsafe(office.nudge.set)
            return rows

    loop = asyncio.get_running_loop()
    office = Office(Rehearsal())
    runner = Runner(
        Late(office.box),
        Rehearsal(),
        agent="coder",
        clock=office.clock,
        nudge=office.nudge,
        on_output=office._on_output,
        idle_seconds=0,
        poll_seconds=60,
    )
    async with asyncio.timeout(20):
        assert await runner.run() == "idle"
    assert len(office.collected().acks) == 1


async def test_a_mailbox_that_cannot_be_written_ends_the_runner_and_is_no_failure_of_the_provider() -> None:
    async def answers(batch: Turn) -> AsyncIterator[Step]:
        yield Answer(text="x", answers=("m1",))

    class Full(type(MemoryMailbox().desk)):  # type: ignore[misc]
        def write(self, **rows: Any) -> Written:
            raise MailboxError(reason="database or disk is full")

    office = Office(Scripted(answers))
    runner = Runner(
        Full(office.box),
        Scripted(answers),
        agent="coder",
        clock=office.clock,
        nudge=office.nudge,
        on_output=lambda: None,
        idle_seconds=1,
        poll_seconds=1,
    )
    office.put(message("m1"))
    with pytest.raises(MailboxError, match="full"):
        await runner.run()
    assert office.collected().acks == ()


# --- coming and going -------------------------------------------------------------------------------------------------


async def test_a_nudge_wakes_a_runner_that_waits() -> None:
    office = Office(Rehearsal())
    task = asyncio.create_task(office.runner.run())
    office.put(message("m1", "!say one"))
    await office.until(lambda found: len(found.acks) == 1)
    office.put(message("m2", "!say two", fence=2))
    collected = await office.until(lambda found: len(found.acks) == 2)
    assert [row.content["text"] for row in collected.messages] == ["one", "two"]
    await office.stop(task)


async def test_without_a_nudge_the_poll_finds_it() -> None:
    office = Office(Rehearsal(), poll_seconds=0.01)
    task = asyncio.create_task(office.runner.run())
    office.box.host.put([message("m1")])
    await office.until(lambda found: len(found.acks) == 1)
    await office.stop(task)


class Bell(asyncio.Event):
    """A nudge that tells when the runner has begun to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.awaited.set()
        return await super().wait()


async def test_a_runner_ends_when_nothing_came_for_the_idle_time_after_its_last_turn() -> None:
    bell = Bell()
    office = Office(Rehearsal(), idle_seconds=100, nudge=bell)
    task = asyncio.create_task(office.runner.run())
    async with asyncio.timeout(20):
        for text, passed in (("!say one", 99_999), ("!say two", 0)):
            await bell.awaited.wait()
            acks = len(office.collected().acks)
            office.box.host.put([message(f"m{acks}", text, fence=acks + 1)])
            bell.set()
            await office.until(lambda found, more=acks + 1: len(found.acks) == more)
            bell.awaited.clear()
            bell.set()
            office.clock.advance(passed)
        assert not task.done()
        while not task.done():
            # its last turn may just be ending, so the time is counted from a little later
            await asyncio.wait({task, asyncio.ensure_future(bell.awaited.wait())}, return_when="FIRST_COMPLETED")
            bell.awaited.clear()
            office.clock.advance(100_000)
            bell.set()
        assert await task == "idle"


async def test_a_stop_said_before_the_start_is_for_another_runner() -> None:
    office = Office(Rehearsal())
    office.box.host.control("stop", {})
    office.put(message("m1"))
    await drive(office, 1)


async def test_stop_lets_the_turn_end() -> None:
    goon = asyncio.Event()

    async def slow(batch: Turn) -> AsyncIterator[Step]:
        yield Text(text="working")
        await goon.wait()
        yield Answer(text="x", answers=("m1",))

    office = Office(Scripted(slow), heartbeat_seconds=0.01)
    office.put(message("m1"), message("m2", fence=2))
    task = asyncio.create_task(office.runner.run())
    await office.until(lambda found: len(found.steps) == 1)
    office.box.host.control("stop", {})
    goon.set()
    async with asyncio.timeout(20):
        assert await task == "stopped"
    assert statuses(office.collected().acks) == [("m1", "completed", None)]


async def test_stop_now_ends_the_turn_without_an_ack() -> None:
    office = Office(Rehearsal(), heartbeat_seconds=0.01)
    office.put(message("m1", "!usage 1 1\n!hang"))
    task = asyncio.create_task(office.runner.run())
    await office.until(lambda found: len(found.steps) == 1)
    assert await office.stop(task, now=True) == "stopped"
    assert office.collected().acks == ()


async def test_what_an_interrupted_turn_spent_is_booked_to_its_run() -> None:
    class Late(Scripted):
        """Learns what was spent only when it is interrupted, as programs do."""

        def owed(self) -> tuple[Usage, ...]:
            return (Usage(input=50_000, output=700),)

    async def slow(batch: Turn) -> AsyncIterator[Step]:
        yield Text(text="working")
        await asyncio.Event().wait()

    office = Office(Late(slow), heartbeat_seconds=0.01)
    office.put(message("m1"))
    task = asyncio.create_task(office.runner.run())
    await office.until(lambda found: len(found.steps) == 1)
    assert await office.stop(task, now=True) == "stopped"
    found = office.collected()
    assert [(step.type, step.run) for step in found.steps][1:] == [("usage", "run_1")]
    assert found.steps[1].data["input"] == 50_000


async def test_the_heart_beats_while_a_turn_runs() -> None:
    beats: list[int] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Beating(type(MemoryMailbox().desk)):  # type: ignore[misc]
        def heartbeat(self) -> None:
            beats.append(1)
            if len(beats) == 3:
                loop.call_soon_threadsafe(enough.set)

    async def slow(batch: Turn) -> AsyncIterator[Step]:
        await enough.wait()
        yield Answer(text="x", answers=("m1",))

    office = Office(Scripted(slow))
    runner = Runner(
        Beating(office.box),
        Scripted(slow),
        agent="coder",
        clock=office.clock,
        nudge=office.nudge,
        on_output=office._on_output,
        idle_seconds=1800,
        poll_seconds=60,
        heartbeat_seconds=0.01,
    )
    office.put(message("m1"))
    task = asyncio.create_task(runner.run())
    await office.until(lambda found: len(found.acks) == 1)
    await office.stop(task)
    assert len(beats) >= 3


# --- tools ------------------------------------------------------------------------------------------------------------


async def test_send_message_is_a_row_of_its_own_before_the_answer() -> None:
    office = Office(Rehearsal())
    office.put(message("m1"), message("m2", '!tool send_message {"text": "a moment"}\n!say done'))
    collected = await drive(office, 2)
    assert [(row.in_reply_to, row.content["text"]) for row in collected.messages[1:]] == [
        ("m2", "a moment"),
        ("m2", "done"),
    ]
    result = next(row for row in collected.steps if row.type == "tool_result")
    assert result.data["ok"] is True
    assert result.data["result"] == {"sent": True, "messageId": collected.messages[1].seq}


# --- files ------------------------------------------------------------------------------------------------------------


async def test_the_loop_works_on_a_mailbox_of_files(tmp_path: Path) -> None:
    host = HostMailbox(tmp_path, session="s1", agent="coder")
    host.prepare()
    desk = DeskMailbox(tmp_path / "in", tmp_path / "out")
    desk.open()
    nudge, output = asyncio.Event(), asyncio.Event()
    runner = Runner(
        desk,
        Rehearsal(),
        agent="coder",
        clock=SystemClock(),
        nudge=nudge,
        on_output=output.set,
        idle_seconds=1800,
        poll_seconds=60,
    )
    task = asyncio.create_task(runner.run())
    epoch, cursor, texts = None, 0, []
    async with asyncio.timeout(30):
        for number in range(5):
            row = message(f"m{number}", f'!tool send_message {{"text": "n{number}"}}\n!say a{number}', fence=number + 1)
            await asyncio.to_thread(host.put, [row])
            nudge.set()
            acked = False
            while not acked:
                await output.wait()
                output.clear()
                page = await asyncio.to_thread(host.collect, epoch, cursor)
                assert page is not None
                epoch, cursor = page.epoch, page.last_seq
                texts += [found.content["text"] for found in page.messages]
                acked = bool(page.acks)
        host.control("stop", {})
        nudge.set()
        assert await task == "stopped"
    assert texts == [f"{letter}{number}" for number in range(5) for letter in "na"]
    assert host.last_heartbeat() is not None


# --- questions --------------------------------------------------------------------------------------------------------


async def test_an_answer_of_the_host_reaches_the_tool_at_once() -> None:
    office = Office(Rehearsal(), heartbeat_seconds=3600)
    task = asyncio.create_task(office.runner.run())
    office.put(message("m1", '!tool ask_user_question {"question": "Tea?"}'))
    found = await office.until(lambda found: any(m.content.get("operation") for m in found.messages))
    (asked,) = found.messages
    # the next heartbeat is an hour away: it is the nudge that makes the runner look
    office.box.host.control(
        "answer", {"questionId": asked.content["questionId"], "status": "answered", "text": "green"}
    )
    office.nudge.set()
    found = await office.until(lambda found: bool(found.acks))
    assert found.messages[1].content["action"] == "question_heard"
    assert "green" in found.messages[2].content["text"]
    await office.stop(task)


async def test_tools_know_the_numbers_of_the_mailbox() -> None:
    office = Office(Rehearsal())
    office.put(message("m1", '!tool add_reaction {"emoji": "👍"}\n!tool add_reaction {"emoji": "👍", "messageId": 44}'))
    found = await drive(office, 1)
    reaction, answer = found.messages
    assert (reaction.content["messageId"], reaction.content["target"]) == (2, "m1")
    assert "There is no message 44" in answer.content["text"]
