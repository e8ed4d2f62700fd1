"""Channels that do what no channel should: they end themselves, hear nothing, stay, or say what cannot be stored."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.channels.base import ChannelDown, ChannelSection, DeliveryFailed, Descriptor, Line, Receipt
from manydesks.channels.registry import Channels
from manydesks.domain import cleaning
from manydesks.domain.envelope import Accepted, Incoming, Parcel
from manydesks.domain.errors import BadInput
from manydesks.domain.failure import Failure, FailureClass, RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound
from manydesks.office import stranger, switchboard
from manydesks.office.deliver import UNSETTLED, Deliverer
from manydesks.office.switchboard import Switchboard
from manydesks.settings.home import Home
from manydesks.settings.model import DeliverySettings, RetrySettings, Settings
from manydesks.store.outcome import Rules
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

RULES = Rules(retry=RetryPolicy(), limits=Limits(), rng=random.Random(1))

Does = Callable[[], Awaitable[Any]]


async def nothing() -> None:
    pass


class NumberedSection(ChannelSection):
    number: int = 0


class Wild:
    """Every instance does as all of them are told."""

    starts: Does = staticmethod(nothing)
    stops: Does = staticmethod(nothing)
    sends: Does = staticmethod(nothing)
    living: list[Wild]

    def __init__(self, line: Line) -> None:
        self.line = line

    async def start(self) -> None:
        await self.starts()
        self.living.append(self)

    async def stop(self) -> None:
        await self.stops()
        self.living.remove(self)

    async def send(self, parcel: Parcel) -> Any:
        return await self.sends() or Receipt(id="wild:1")


class Bench:
    """One channel, and responses to deliver on it."""

    def __init__(self, store: Store, home: Home) -> None:
        self.store = store
        self.news = asyncio.Event()
        self.wild = type("Wild", (Wild,), {"living": []})
        self.settings = Settings(
            retry=RetrySettings(base_seconds=1.0, jitter=0.0), delivery=DeliverySettings(max_attempts=3)
        )
        described = Descriptor(name="wild", load=self.wild, section=NumberedSection, by_itself=True, cut_off="ask")

        async def hand_in(incoming: Incoming) -> Accepted:
            return await store.accept(incoming, default_agent="assistant", message_bytes=1000)

        self.board = Switchboard(
            store, home, self.settings, hand_in=hand_in, show=lambda line: None, changed=self.news.set,
            channels=Channels([described]),
        )  # fmt: skip
        self.deliverer = Deliverer(store, self.board, self.settings, files=home.files, clock=ManualClock())

    async def write(self, key: str) -> None:
        """Somebody writes, and is answered."""
        incoming = Incoming(source="wild", key=key, text="hello", channel="wild", platform_id="home")
        await self.store.accept(incoming, default_agent="assistant", message_bytes=1000)
        (claimed,) = await self.store.claim(batch=1, most=1)
        seq = max((await self.store.cursors(claimed.session)).values(), default=-1)
        about: dict[str, Any] = {"run": claimed.run, "fence": claimed.fence, "at": 1}
        said = Outbound(id=f"out_{key}", seq=seq + 2, in_reply_to=key, kind="chat", content={"text": key}, **about)
        ack = Ack(message=key, seq=seq + 4, status="completed", **about)
        page = Collected(epoch="ab" * 16, last_seq=seq + 4, messages=(said,), acks=(ack,), steps=(), state={})
        await self.store.take(claimed.session, page, RULES, {})

    async def deliver(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            await self.deliverer.pump()
            await self.deliverer.drain(10)

    async def until(self, there: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not there():
                self.news.clear()
                await self.news.wait()

    async def states(self) -> list[tuple[Any, ...]]:
        sql = "select status, last_error, receipts from responses order by id"
        return await self.store._do(lambda tx: tx.all(sql))

    def want(self, number: int) -> None:
        """Other settings, so another channel."""
        self.settings = self.settings.model_copy(update={"channels": {"wild": {"number": number}}})
        self.board.take_settings(self.settings)

    def numbers(self) -> list[int]:
        """Of the instances that live."""
        return [one.line.section.number for one in self.wild.living]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(switchboard, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(switchboard, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(switchboard, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(stranger, "GRACE_SECONDS", 0.2)
    home = Home(tmp_path / "home")
    home.prepare()
    store = Store(home.office_db, durability="crash", clock=ManualClock())
    await store.add_agent(id="assistant", provider="rehearsal")
    made = Bench(store, home)
    yield made
    made.wild.starts = made.wild.stops = made.wild.sends = staticmethod(nothing)
    await made.board.stop()
    store.close()


def raising(error: BaseException) -> Does:
    async def raises() -> None:
        raise error

    return staticmethod(raises)


class Deaf:
    """Hears no cancellation until it is released."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.over.wait()
        self.ended.set()

    async def release(self) -> None:
        self.over.set()
        await self.ended.wait()


# what would end more than the channel

ENDS = {
    "SystemExit: 3": SystemExit(3),
    "KeyboardInterrupt: ": KeyboardInterrupt(),
    "CancelledError: ": asyncio.CancelledError(),
    "GeneratorExit: ": GeneratorExit(),
}


@pytest.mark.parametrize("error", ENDS.values(), ids=ENDS)
async def test_what_a_sending_raises_fails_the_sending_and_nothing_else(bench: Bench, error: BaseException) -> None:
    await bench.board.start()
    await bench.write("one")
    bench.wild.sends = raising(error)
    await bench.deliver()
    words = next(words for words, one in ENDS.items() if one is error)
    assert await bench.states() == [("unsure", words.strip(), None)]


@pytest.mark.parametrize("error", ENDS.values(), ids=ENDS)
async def test_what_a_start_raises_leaves_the_channel_down_and_it_is_tried_again(
    bench: Bench, error: BaseException
) -> None:
    bench.wild.starts = raising(error)
    await bench.board.start()
    assert bench.board.why["wild"].startswith(f"the channel 'wild' is down: {type(error).__name__}")
    bench.wild.starts = staticmethod(nothing)
    await bench.until(lambda: "wild" in bench.board.up)


async def test_a_channel_that_cannot_even_be_made_is_down(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def exits(self: Wild, line: Line) -> None:
        raise SystemExit("no library")

    monkeypatch.setattr(bench.wild, "__init__", exits)
    await bench.board.start()
    assert bench.board.why == {"wild": "the channel 'wild' is down: SystemExit: no library"}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_a_stop_raises_keeps_nobody_from_the_next_start(bench: Bench, error: BaseException) -> None:
    await bench.board.start()
    bench.wild.stops = raising(error)
    bench.wild.living[0].line.down("lost")
    await bench.until(lambda: "wild" in bench.board.why)
    await bench.until(lambda: "wild" in bench.board.up)


# what hears nothing


async def test_a_stop_that_hears_nothing_is_left_behind_and_the_next_instance_comes_up(bench: Bench) -> None:
    await bench.board.start()
    deaf = bench.wild.stops = Deaf()
    (old,) = bench.wild.living
    old.line.down("lost")
    await bench.until(lambda: "wild" in bench.board.why)
    await bench.until(lambda: "wild" in bench.board.up)
    # what it still hears from its platform is the new one's to hand in
    arrival = Incoming(source="wild", key="w1", text="hello", channel="wild", platform_id="home")
    with pytest.raises(ChannelDown, match="the office has stopped this channel"):
        await old.line.hand_in(arrival)
    await bench.wild.living[-1].line.hand_in(arrival)
    await deaf.release()


@pytest.mark.parametrize("which", ["starts", "stops"])
async def test_the_board_stops_whatever_a_channel_does(
    bench: Bench, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switchboard, "PATIENCE_SECONDS", 0.2)
    deaf = Deaf()
    setattr(bench.wild, which, deaf)
    await bench.board.start()
    async with asyncio.timeout(20):
        await bench.board.stop()
    await deaf.release()


# one at a time


async def test_settings_that_change_while_a_channel_is_exchanged_leave_one_instance_as_they_say_last(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switchboard, "STOP_SECONDS", 20.0)
    go, begun = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        begun.set()
        await go.wait()

    await bench.board.start()
    bench.wild.stops = staticmethod(slowly)
    bench.want(1)
    await begun.wait()
    for number in (2, 3, 4):
        bench.want(number)
        await asyncio.sleep(0)
    go.set()
    await bench.until(lambda: bench.numbers() == [4] and "wild" in bench.board.up)
    bench.want(5)
    await bench.until(lambda: bench.numbers() == [5] and "wild" in bench.board.up)
    await bench.board.stop()
    assert bench.numbers() == []


async def test_the_last_wish_wins_at_every_moment(bench: Bench) -> None:
    """Wishes between any two steps of the exchange, seeded; one instance is left, and the last one."""
    rng = random.Random(5)

    async def pause() -> None:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)

    bench.wild.starts = bench.wild.stops = staticmethod(pause)
    await bench.board.start()
    for round in range(1, 60):
        for step in range(rng.randrange(1, 5)):
            bench.want(last := 10 * round + step)
            await pause()
        await bench.until(lambda wanted=last: bench.numbers() == [wanted] and "wild" in bench.board.up)  # type: ignore[misc]


async def test_a_board_that_stops_in_the_middle_of_an_exchange_leaves_no_instance(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switchboard, "STOP_SECONDS", 20.0)
    go, begun = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        begun.set()
        await go.wait()

    await bench.board.start()
    bench.wild.stops = staticmethod(slowly)
    bench.want(1)
    await begun.wait()
    stopping = asyncio.create_task(bench.board.stop())
    await asyncio.sleep(0)
    go.set()
    await stopping
    assert (bench.numbers(), bench.board.up) == ([], {})


# what cannot be stored

BAD = {"half a character": "a\ud800b", "NUL": "a\0b", "endless": "ab" * 1_000_000}


def storable(text: str | None) -> bool:
    return text is not None and text.startswith("a") and cleaning.is_clean(text)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
async def test_a_receipt_is_kept_as_far_as_it_can_be(bench: Bench, text: str) -> None:
    async def sends() -> Receipt:
        return Receipt(id=text)

    await bench.board.start()
    for key in ("one", "two"):
        await bench.write(key)
    bench.wild.sends = staticmethod(sends)
    await bench.deliver(rounds=2)
    assert [(state, len(receipts) < 2_000) for state, _, receipts in await bench.states()] == [("acked", True)] * 2


@pytest.mark.parametrize("given", [5, Receipt(id=5), Receipt(id=None)])  # type: ignore[arg-type]
async def test_what_is_no_receipt_leaves_it_open(bench: Bench, given: Any) -> None:
    async def sends() -> Any:
        return given

    await bench.board.start()
    await bench.write("one")
    bench.wild.sends = staticmethod(sends)
    await bench.deliver()
    assert await bench.states() == [("unsure", "TypeError: the channel gave back no receipt", None)]


@pytest.mark.parametrize("kind", [FailureClass.PERMANENT, FailureClass.TRANSIENT])
@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
async def test_a_reason_is_kept_as_far_as_it_can_be(bench: Bench, text: str, kind: FailureClass) -> None:
    await bench.board.start()
    await bench.write("one")
    bench.wild.sends = raising(DeliveryFailed(Failure(kind=kind, reason=text)))
    await bench.deliver()
    ((state, reason, _),) = await bench.states()
    assert (state, storable(reason)) == ("dead" if kind is FailureClass.PERMANENT else "pending", True)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("error", [OSError("a\ud800b"), OSError("ab" * 1_000_000), Mute()])
async def test_so_is_what_was_raised(bench: Bench, error: Exception) -> None:
    await bench.board.start()
    await bench.write("one")
    bench.wild.sends = raising(error)
    await bench.deliver()
    ((state, reason, _),) = await bench.states()
    assert (state, cleaning.is_clean(reason)) == ("unsure", True)


async def test_a_failure_of_another_form_is_one(bench: Bench) -> None:
    await bench.board.start()
    await bench.write("one")
    odd: Any = Failure(kind="bad", reason=7, retry_after="soon")  # type: ignore[arg-type]
    bench.wild.sends = raising(DeliveryFailed(odd))
    await bench.deliver()
    assert await bench.states() == [("pending", "7", None)]


async def test_a_verdict_that_cannot_be_stored_leaves_nothing_on_its_way_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> None:
        raise ValueError("no note today")

    monkeypatch.setattr("manydesks.store.deliver.tell_agent", broken)
    await bench.board.start()
    await bench.write("one")
    bench.wild.sends = raising(DeliveryFailed(Failure(kind=FailureClass.PERMANENT, reason="moved away")))
    await bench.deliver()
    assert await bench.states() == [("unsure", UNSETTLED, None)]
    await bench.write("two")
    bench.wild.sends = staticmethod(nothing)
    await bench.deliver()
    assert [state for state, _, _ in await bench.states()] == ["unsure", "acked"]


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
@pytest.mark.parametrize("how", ["start", "down"])
async def test_why_a_channel_is_down_is_kept_as_far_as_it_can_be(bench: Bench, text: str, how: str) -> None:
    if how == "start":
        bench.wild.starts = raising(ChannelDown(text))
        await bench.board.start()
    else:
        await bench.board.start()
        bench.wild.starts = raising(ChannelDown("still so"))
        bench.wild.living[0].line.down(text)
        await bench.until(lambda: "wild" in bench.board.why)
    assert cleaning.is_clean(bench.board.why["wild"])
    await bench.write("one")
    await bench.deliver()
    ((state, reason, _),) = await bench.states()
    assert (state, reason.startswith("the channel 'wild' is down: ")) == ("held", True)
    bench.wild.starts = staticmethod(nothing)
    await bench.until(lambda: "wild" in bench.board.up)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
async def test_a_name_is_cut_and_an_id_is_refused(bench: Bench, text: str) -> None:
    await bench.board.start()
    hand_in = bench.wild.living[0].line.hand_in
    given: dict[str, Any] = {"source": "wild", "text": "hello", "channel": "wild", "platform_id": "home"}
    await hand_in(Incoming(key="w1", **given | {"sender": text}))
    ((sender,),) = await bench.store._do(lambda tx: tx.all("select sender from messages"))
    assert storable(sender)
    for name in ("platform_id", "thread", "sender_id"):
        with pytest.raises(BadInput, match=f"The message's {name} is at most 1000 characters of text"):
            await hand_in(Incoming(key="w2", **given | {name: text}))
