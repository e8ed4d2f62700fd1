"""Messages that come during a turn go to a provider that takes them; what it has not read is the next turn's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from manydesks.domain.mail import Collected, Inbound
from manydesks.runner.loop import Runner
from manydesks.runner.providers.base import Answer, Failed, Step, Text, Turn
from manydesks.testing.clock import ManualClock
from manydesks.testing.mailbox import MemoryMailbox


class Listening:
    """Answers what it was pushed, if it likes, once it is told to go on."""

    def __init__(self, *, reads: bool = True, fails: bool = False) -> None:
        self.pushed: list[str] = []
        self.turns: list[list[str]] = []
        self.begun = asyncio.Event()
        self.arrived = asyncio.Event()
        self.go_on = asyncio.Event()
        self._reads = reads
        self._fails = fails

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        ids = [message.id for message in batch.messages]
        self.turns.append(ids)
        self.begun.set()
        yield Text(text="at work")
        if len(self.turns) == 1:
            await self.go_on.wait()
        for id in ids:
            yield Answer(text=f"to {id}", answers=(id,))
        if self._reads and len(self.turns) == 1:
            for id in self.pushed:
                assert (await batch.tools.call("send_message", {"text": "also"}, message=id)).ok
                yield Answer(text=f"to {id}", answers=(id,))

    async def push(self, messages: tuple[Inbound, ...]) -> None:
        self.arrived.set()
        if self._fails:
            raise RuntimeError("no room")
        self.pushed += [message.id for message in messages]

    async def close(self) -> None: ...


class Desk:
    def __init__(self, provider: Listening) -> None:
        clock = ManualClock()
        self.box = MemoryMailbox(clock=clock)
        self.box.desk.open()
        self.nudge = asyncio.Event()
        self._output = asyncio.Event()
        self.runner = Runner(
            self.box.desk,
            provider,
            agent="coder",
            clock=clock,
            nudge=self.nudge,
            on_output=self._output.set,
            idle_seconds=1800,
            poll_seconds=60,
            heartbeat_seconds=60,
        )

    def put(self, *ids: str, fence: int = 1) -> None:
        rows = [
            Inbound(id=id, run=f"run_{fence}", fence=fence, kind="chat", at=1, tries=1, content={"text": id})
            for id in ids
        ]
        self.box.host.put(rows)
        self.nudge.set()

    async def until_acked(self, count: int) -> Collected:
        async with asyncio.timeout(20):
            while True:
                self._output.clear()
                found = self.box.host.collect(None, 0)
                if found is not None and len(found.acks) >= count:
                    return found
                await self._output.wait()


async def play(provider: Listening, *, first: Sequence[str], more: Sequence[str], fence: int = 1) -> Collected:
    desk = Desk(provider)
    desk.put(*first)
    task = asyncio.create_task(desk.runner.run())
    async with asyncio.timeout(20):
        await provider.begun.wait()
    desk.put(*more, fence=fence)
    if fence == 1:
        async with asyncio.timeout(20):
            await provider.arrived.wait()
    provider.go_on.set()
    found = await desk.until_acked(len(first) + len(more))
    desk.box.host.control("stop", {})
    desk.nudge.set()
    async with asyncio.timeout(20):
        await task
    return found


async def test_what_is_read_is_answered_in_the_same_turn() -> None:
    provider = Listening()
    found = await play(provider, first=["m1"], more=["m2", "m3"])
    assert provider.turns == [["m1"]]
    assert provider.pushed == ["m2", "m3"]
    assert [ack.message for ack in found.acks] == ["m1", "m2", "m3"]


async def test_what_is_not_read_is_the_next_turns() -> None:
    provider = Listening(reads=False)
    found = await play(provider, first=["m1"], more=["m2", "m3"])
    assert provider.turns == [["m1"], ["m2", "m3"]]
    assert [ack.status for ack in found.acks] == ["completed"] * 3


async def test_a_push_that_fails_loses_nothing() -> None:
    provider = Listening(fails=True)
    found = await play(provider, first=["m1"], more=["m2"])
    assert provider.turns == [["m1"], ["m2"]]
    assert [ack.status for ack in found.acks] == ["completed"] * 2


async def test_another_claim_is_never_pushed() -> None:
    provider = Listening()
    await play(provider, first=["m1"], more=["m2"], fence=2)
    assert provider.pushed == []
    assert provider.turns == [["m1"], ["m2"]]


async def test_a_failure_ends_the_turn_with_all_that_joined() -> None:
    class Failing(Listening):
        async def turn(self, batch: Turn) -> AsyncIterator[Step]:
            self.turns.append([message.id for message in batch.messages])
            self.begun.set()
            yield Text(text="at work")
            await self.go_on.wait()
            yield Failed(failure="transient", reason="no luck", message="m1")

    provider = Failing()
    desk = Desk(provider)
    desk.put("m1")
    task = asyncio.create_task(desk.runner.run())
    async with asyncio.timeout(20):
        await provider.begun.wait()
        desk.put("m2")
        await provider.arrived.wait()
        provider.go_on.set()
        found = await desk.until_acked(1)
        desk.box.host.control("stop", {})
        desk.nudge.set()
        await task
    assert [(ack.message, ack.status) for ack in found.acks] == [("m1", "failed")]
    assert provider.turns == [["m1"]]
