"""Channels: what each one promises the office, and what the office promises each one."""

from __future__ import annotations

import asyncio
import io
import random
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.channels.base import Channel, DeliveryFailed, Receipt
from manydesks.channels.console import BACKLOG, Console, Screen
from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Incoming, Parcel
from manydesks.domain.failure import Failure, FailureClass, RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.office.deliver import Deliverer
from manydesks.settings.model import DeliverySettings, RetrySettings, Settings
from manydesks.store.outcome import Rules
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

#: every channel there is, each with a way to make one that reaches nobody
MEMBERS: list[Callable[[], Channel]] = [lambda: Console(show=lambda line: None)]


def parcel(id: int = 1, **changes: Any) -> Parcel:
    values: dict[str, Any] = {
        "id": id,
        "fence": 1,
        "message_id": "console_aaaaaaaa",
        "part": 1,
        "attempt": 1,
        "channel": "console",
        "instance": "",
        "platform_id": "terminal",
        "thread": "",
        "sender": "ada",
        "agent": "assistant",
        "operation": "message",
        "text": "hello",
        "created_at": 0,
    }
    return Parcel(**{**values, **changes})


# what every channel promises


@pytest.fixture(params=MEMBERS, ids=lambda make: make().name)
def channel(request: pytest.FixtureRequest) -> Channel:
    return request.param()


def test_it_has_a_name_and_a_rule_for_what_was_cut_off(channel: Channel) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", channel.name)
    assert channel.cut_off in ("resend", "ask")


async def test_each_parcel_has_a_receipt_of_its_own(channel: Channel) -> None:
    receipts = [await channel.send(parcel(id)) for id in range(1, 6)]
    assert all(isinstance(receipt, Receipt) and receipt.id for receipt in receipts)
    assert len({receipt.id for receipt in receipts}) == 5


async def test_it_may_be_asked_again_for_the_same_parcel(channel: Channel) -> None:
    assert (await channel.send(parcel(attempt=1))).id
    assert (await channel.send(parcel(attempt=2))).id


OPERATIONS: dict[str, dict[str, Any]] = {
    "message": {"files": (Attachment(name="a.txt", bytes=1, sha256="ab", path="files/ab/a.txt"),), "text": ""},
    "notice": {},
    "edit": {"target": "r1"},
    "reaction": {"text": "👍", "target": None},
    "card": {"metadata": {"card": {"title": "Done", "description": None, "fields": [], "actions": []}}},
    "ask_question": {"metadata": {"question": {"id": "question_1", "title": "", "question": "Tea?", "options": []}}},
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_it_takes_whatever_an_agent_can_do(channel: Channel, operation: str) -> None:
    assert (await channel.send(parcel(operation=operation, **OPERATIONS[operation]))).id


@pytest.mark.parametrize("make", MEMBERS, ids=lambda make: make().name)
@given(text=st.text(max_size=200), sender=st.text(max_size=20), agent=st.none() | st.just("assistant"))
def test_it_takes_whatever_an_agent_says(
    make: Callable[[], Channel], text: str, sender: str, agent: str | None
) -> None:
    assert asyncio.run(make().send(parcel(text=text, sender=sender, agent=agent))).id


# the console


async def test_the_console_says_who_answers_whom() -> None:
    shown: list[str] = []
    await Console(show=shown.append).send(parcel(text="one\ntwo"))
    assert shown == ["assistant → ada: one\ntwo"]


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        ("message", "[file] a.txt (1 byte): files/ab/a.txt"),
        ("edit", "[edited] hello"),
        ("reaction", "[reacted] 👍"),
        ("card", "[card] hello"),
        ("ask_question", "[question] hello\n(to answer: manydesks answer question_1 …)"),
    ],
)
async def test_the_console_says_what_it_shows(operation: str, line: str) -> None:
    shown: list[str] = []
    await Console(show=shown.append).send(parcel(operation=operation, **OPERATIONS[operation]))
    assert shown == [f"assistant → ada: {line}"]


@given(text=st.text(max_size=100), sender=st.text(max_size=20))
def test_nothing_that_the_console_shows_can_steer_a_terminal(text: str, sender: str) -> None:
    shown: list[str] = []
    asyncio.run(Console(show=shown.append).send(parcel(text=text, sender=sender)))
    assert all(character.isprintable() or character in "\n\t" for character in shown[0])


class ClosedTerminal(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


async def test_an_answer_is_delivered_when_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", ClosedTerminal())
    screen = Screen()
    assert (await Console(screen.show).send(parcel())).id == "console:1"
    assert (await Console(screen.show).send(parcel(2))).id == "console:2"
    screen.close(10)


class StoppedTerminal(io.StringIO):
    """Ctrl-S: whoever prints waits until somebody presses Ctrl-Q."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, text: str) -> int:
        self.goes_on.wait(60)
        return super().write(text)


async def test_a_terminal_that_stands_still_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StoppedTerminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    screen = Screen()
    console = Console(screen.show)
    for number in range(BACKLOG + 50):
        assert (await console.send(parcel(number, text=f"line {number}"))).id == f"console:{number}"
    assert terminal.getvalue() == ""
    terminal.goes_on.set()
    screen.close(10)
    assert "line 0\n" in terminal.getvalue()


async def test_a_log_keeps_no_texts() -> None:
    shown: list[str] = []
    await Console(shown.append, texts=False).send(parcel(text="a secret"))
    assert "secret" not in shown[0]
    assert "8 characters" in shown[0]


async def test_a_terminal_that_cannot_write_a_character_still_gets_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    screen = Screen()
    assert (await Console(screen.show).send(parcel(text="größer"))).id == "console:1"
    screen.close(10)
    assert b"gr" in raw.getvalue()


# what the office promises every channel

SETTINGS = Settings(retry=RetrySettings(base_seconds=1.0, jitter=0.0), delivery=DeliverySettings(max_attempts=3))
RULES = Rules(retry=RetryPolicy(), limits=Limits(), rng=random.Random(1))


class Postman:
    """A channel that does as it is told, and remembers what it was asked."""

    name = "post"

    def __init__(self, cut_off: Literal["resend", "ask"] = "resend") -> None:
        self.cut_off: Literal["resend", "ask"] = cut_off
        self.asked: list[Parcel] = []
        self.does: Callable[[Parcel], Awaitable[None]] = self.nothing

    async def nothing(self, parcel: Parcel) -> None:
        pass

    async def send(self, parcel: Parcel) -> Receipt:
        self.asked.append(parcel)
        await self.does(parcel)
        return Receipt(id=f"post:{parcel.id}")


class Desk:
    """A store with something to deliver: notices that a message could not be answered."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.sent = 0

    async def write(self, *, place: str = "home") -> None:
        self.sent += 1
        incoming = Incoming(source="post", key=f"post_{self.sent}", text="hello", channel="post", platform_id=place)
        await self.store.accept(incoming, default_agent="assistant", message_bytes=1000)
        (claimed,) = await self.store.claim(batch=1, most=1)
        failure = Failure(kind=FailureClass.PERMANENT, reason=f"number {self.sent}")
        await self.store.run_died(claimed.session, claimed.fence, failure, RULES)

    async def deliver(self, channel: Channel, *, rounds: int = 1) -> None:
        """As the host does: begin what can begin, until nothing can."""
        deliverer = Deliverer(self.store, {channel.name: channel}, SETTINGS)
        for _ in range(rounds):
            await deliverer.pump()
            await deliverer.drain(10)

    async def states(self) -> list[tuple[str, int, str | None]]:
        def look(tx: Any) -> list[tuple[str, int, str | None]]:
            return tx.all("select status, retry_count, last_error from responses order by id")

        return await self.store._do(look)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    clock = ManualClock()
    store = Store(tmp_path / "office.db", durability="crash", clock=clock)
    await store.add_agent(id="assistant", provider="rehearsal")
    yield Desk(store, clock)
    store.close()


async def test_a_receipt_ends_it(desk: Desk) -> None:
    postman = Postman()
    await desk.write()
    await desk.deliver(postman, rounds=3)
    assert [(p.channel, p.platform_id, p.sender, p.agent, p.attempt) for p in postman.asked] == [
        ("post", "home", "you", "assistant", 1)
    ]
    assert await desk.states() == [("acked", 1, None)]


async def test_one_conversation_is_served_in_order_one_at_a_time(desk: Desk) -> None:
    postman = Postman()
    under_way: set[str] = set()

    async def slowly(parcel: Parcel) -> None:
        assert parcel.platform_id not in under_way
        under_way.add(parcel.platform_id)
        await asyncio.sleep(0)
        under_way.discard(parcel.platform_id)

    postman.does = slowly
    for _ in range(4):
        await desk.write()
    await desk.deliver(postman, rounds=6)
    assert [re.findall(r"number (\d)", p.text) for p in postman.asked] == [["1"], ["2"], ["3"], ["4"]]
    assert [state for state, _, _ in await desk.states()] == ["acked"] * 4


async def test_conversations_are_served_side_by_side(desk: Desk) -> None:
    postman = Postman()
    both = asyncio.Barrier(2)

    async def together(parcel: Parcel) -> None:
        await both.wait()  # would wait for ever if the other were sent after this one

    postman.does = together
    await desk.write(place="home")
    await desk.write(place="work")
    await desk.deliver(postman)
    assert [state for state, _, _ in await desk.states()] == ["acked", "acked"]


async def test_a_passing_failure_is_tried_again_later_and_dead_in_the_end(desk: Desk) -> None:
    postman = Postman()

    async def busy(parcel: Parcel) -> None:
        raise DeliveryFailed(Failure(kind=FailureClass.TRANSIENT, reason="busy"))

    postman.does = busy
    await desk.write()
    await desk.deliver(postman)
    assert await desk.states() == [("pending", 1, "busy")]
    await desk.deliver(postman)
    assert len(postman.asked) == 1  # not before its time
    for milliseconds in (1000, 2000, 4000, 8000):
        desk.clock.advance(milliseconds)
        await desk.deliver(postman)
    assert [p.attempt for p in postman.asked] == [1, 2, 3]
    assert await desk.states() == [("dead", 3, "busy")]


async def test_a_lasting_failure_is_dead_at_once_and_frees_its_conversation(desk: Desk) -> None:
    postman = Postman()

    async def unknown(parcel: Parcel) -> None:
        if "number 1" in parcel.text:
            raise DeliveryFailed(Failure(kind=FailureClass.PERMANENT, reason="moved away"))

    postman.does = unknown
    await desk.write()
    await desk.write()
    await desk.deliver(postman, rounds=2)
    assert await desk.states() == [("dead", 1, "moved away"), ("acked", 1, None)]


@pytest.mark.parametrize(("cut_off", "ends"), [("resend", "pending"), ("ask", "unsure")])
async def test_a_cut_off_sending_follows_the_rule_of_its_channel(
    desk: Desk, cut_off: Literal["resend", "ask"], ends: str
) -> None:
    postman = Postman(cut_off)

    async def breaks(parcel: Parcel) -> None:
        raise ConnectionResetError("the line broke")

    postman.does = breaks
    await desk.write()
    await desk.deliver(postman)
    assert await desk.states() == [(ends, 1, "ConnectionResetError: the line broke")]


async def test_a_response_for_a_channel_that_is_not_there_waits(desk: Desk) -> None:
    await desk.write()
    await desk.deliver(Console(show=lambda line: None), rounds=2)
    assert await desk.states() == [("pending", 0, None)]
    await desk.deliver(Postman())
    assert await desk.states() == [("acked", 1, None)]
