"""What the office promises every channel: order, patience, no piece twice, and nothing that is lost without a word."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.channels.base import ChannelDown, DeliveryFailed, Descriptor, Line, Receipt
from manydesks.channels.registry import Channels
from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Accepted, Incoming, Parcel
from manydesks.domain.errors import StoreFull
from manydesks.domain.failure import Failure, FailureClass, RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound
from manydesks.office import switchboard
from manydesks.office.deliver import Deliverer
from manydesks.office.switchboard import Switchboard
from manydesks.settings.home import Home
from manydesks.settings.model import DeliverySettings, RetrySettings, Settings
from manydesks.store import deliver as store_deliver
from manydesks.store.deliver import Delivery
from manydesks.store.outcome import Rules
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

HOUR = 3_600_000
RULES = Rules(retry=RetryPolicy(), limits=Limits(), rng=random.Random(1))

Does = Callable[[Parcel], Awaitable[None]]


class Postman:
    """A channel that does as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Parcel] = []
        self.arrived: list[Parcel] = []
        self.does: Does = self.nothing
        self.then: Does = self.nothing
        self.closed: str | None = None
        self.line: Line | None = None
        self.stopped = 0

    async def nothing(self, parcel: Parcel) -> None:
        pass

    async def start(self) -> None:
        if self.closed is not None:
            raise ChannelDown(self.closed)

    async def stop(self) -> None:
        self.stopped += 1

    async def send(self, parcel: Parcel) -> Receipt:
        self.asked.append(parcel)
        await self.does(parcel)
        self.arrived.append(parcel)
        await self.then(parcel)
        return Receipt(id=f"post:{len(self.arrived)}")

    def described(self, **abilities: Any) -> Descriptor:
        def load(line: Line) -> Postman:
            self.line = line
            return self

        return Descriptor(name="post", load=load, by_itself=True, **{"cut_off": "resend", **abilities})


class Bench:
    """A store with something to deliver, and the host's parts that do it."""

    def __init__(self, store: Store, clock: ManualClock, home: Home) -> None:
        self.store = store
        self.clock = clock
        self.home = home
        self.settings = Settings(
            retry=RetrySettings(base_seconds=1.0, jitter=0.0), delivery=DeliverySettings(max_attempts=3)
        )
        self.postman = Postman()
        self.sent = 0
        #: a channel came up or went down
        self.news = asyncio.Event()
        self._board: Switchboard | None = None
        self._deliverer: Deliverer | None = None

    async def write(self, *texts: str, place: str = "home", channel: str = "post", **more: Any) -> str:
        """Somebody writes, and the assistant answers with these texts, each a response."""
        self.sent += 1
        key = f"post_{self.sent}"
        incoming = Incoming(source="post", key=key, text="hello", channel=channel, platform_id=place)
        await self.store.accept(incoming, default_agent="assistant", message_bytes=1000)
        await self.answer(key, *(texts or (f"number {self.sent}",)), **more)
        return key

    async def answer(self, key: str, *texts: str, files: dict[str, Any] | None = None) -> None:
        (claimed,) = await self.store.claim(batch=1, most=1)
        cursors = await self.store.cursors(claimed.session)
        seq = max(cursors.values(), default=-1)
        rows = [
            Outbound(id=f"out_{claimed.fence}_{number}", seq=seq + 2 * number, run=claimed.run, fence=claimed.fence,
                     in_reply_to=key, at=1, kind="chat", content={"text": text})
            for number, text in enumerate(texts, 1)
        ]  # fmt: skip
        last = seq + 2 * (len(rows) + 1)
        ack = Ack(message=key, seq=last, run=claimed.run, fence=claimed.fence, status="completed", at=1)
        page = Collected(epoch="ab" * 16, last_seq=last, messages=tuple(rows), acks=(ack,), steps=(), state={})
        taken = {rows[-1].id: tuple(files["taken"])} if files else {}
        await self.store.take(claimed.session, page, RULES, taken)

    async def open(self, **abilities: Any) -> Deliverer:
        descriptor = self.postman.described(**abilities)

        async def hand_in(incoming: Incoming) -> Accepted:
            return await self.store.accept(incoming, default_agent="assistant", message_bytes=1000)

        self._board = Switchboard(
            self.store,
            self.home,
            self.settings,
            hand_in=hand_in,
            show=lambda line: None,
            changed=self.news.set,
            channels=Channels([descriptor]),
        )
        await self._board.start()
        self._deliverer = Deliverer(self.store, self._board, self.settings, files=self.home.files, clock=self.clock)
        return self._deliverer

    @property
    def board(self) -> Switchboard:
        assert self._board is not None
        return self._board

    async def deliver(self, *, rounds: int = 1, **abilities: Any) -> None:
        """As the host does: begin what can begin, until nothing can."""
        deliverer = self._deliverer or await self.open(**abilities)
        for _ in range(rounds):
            await deliverer.pump()
            await deliverer.drain(10)

    async def close(self) -> None:
        if self._board is not None:
            await self._board.stop()
        self._board = self._deliverer = None

    async def open_again(self) -> None:
        """The platform is there again, and the office has noticed."""
        self.postman.closed = None
        await self.until(lambda: "post" in self.board.up)

    async def until(self, there: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not there():
                self.news.clear()
                await self.news.wait()

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return await self.store._do(lambda tx: tx.all(sql))

    async def states(self) -> list[tuple[str, int, str | None]]:
        return await self.rows("select status, retry_count, last_error from responses order by id")  # type: ignore[return-value]

    async def kinds(self, like: str = "response_%") -> list[str]:
        return [kind for (kind,) in await self.rows(f"select kind from events where kind like '{like}' order by seq")]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(switchboard, "AGAIN_SECONDS", 0.01)
    home = Home(tmp_path / "home")
    home.prepare()
    clock = ManualClock()
    store = Store(home.office_db, durability="crash", clock=clock)
    await store.add_agent(id="assistant", provider="rehearsal")
    made = Bench(store, clock, home)
    yield made
    await made.close()
    store.close()


def failing(kind: FailureClass, reason: str, match: str = "") -> Does:
    async def fails(parcel: Parcel) -> None:
        if match in parcel.text:
            raise DeliveryFailed(Failure(kind=kind, reason=reason))

    return fails


async def breaks(parcel: Parcel) -> None:
    raise ConnectionResetError("the line broke")


# order and patience


async def test_a_receipt_ends_it(bench: Bench) -> None:
    await bench.write()
    await bench.deliver(rounds=3)
    assert [(p.channel, p.platform_id, p.sender, p.agent, p.attempt) for p in bench.postman.asked] == [
        ("post", "home", "you", "assistant", 1)
    ]
    assert await bench.states() == [("acked", 1, None)]
    assert await bench.rows("select receipts from responses") == [('["post:1"]',)]


async def test_one_conversation_is_served_in_order_one_at_a_time(bench: Bench) -> None:
    under_way: set[str] = set()

    async def slowly(parcel: Parcel) -> None:
        assert parcel.platform_id not in under_way
        under_way.add(parcel.platform_id)
        await asyncio.sleep(0)
        under_way.discard(parcel.platform_id)

    bench.postman.does = slowly
    for _ in range(4):
        await bench.write()
    await bench.deliver(rounds=6)
    assert [re.findall(r"number (\d)", p.text) for p in bench.postman.asked] == [["1"], ["2"], ["3"], ["4"]]
    assert [state for state, _, _ in await bench.states()] == ["acked"] * 4


async def pumped(bench: Bench, deliverer: Deliverer, settled: int) -> int:
    """As the host does: look whenever there is news, until so many are settled; how many looks that took."""
    looks = 0
    async with asyncio.timeout(10):
        while True:
            bench.news.clear()
            await deliverer.pump()
            looks += 1
            if [state for state, _, _ in await bench.states()].count("acked") == settled:
                return looks
            await bench.news.wait()


async def test_what_became_of_one_is_stored_with_the_claim_of_the_next(bench: Bench) -> None:
    deliverer = await bench.open()
    for _ in range(3):
        await bench.write()
    # each look settles one and begins the next; the last only settles
    assert await pumped(bench, deliverer, 3) == 4
    assert [p.text for p in bench.postman.arrived] == ["number 1", "number 2", "number 3"]


async def test_a_full_disk_delays_what_became_of_a_sending(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    deliverer = await bench.open()
    await bench.write()
    await deliverer.pump()
    await bench.until(lambda: bool(deliverer._verdicts))

    async def full(*args: Any, **terms: Any) -> list[Parcel]:
        raise StoreFull(path="office.db")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "claim_parcels", full)
        for _ in range(2):
            with pytest.raises(StoreFull):
                await deliverer.pump()
    assert [state for state, _, _ in await bench.states()] == ["sending"]
    await deliverer.pump()
    assert [state for state, _, _ in await bench.states()] == ["acked"]
    assert len(bench.postman.asked) == 1


async def test_one_that_cannot_be_stored_costs_the_others_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliverer = await bench.open()
    await bench.write(place="home")
    await bench.write(place="work")
    await deliverer.pump()
    await bench.until(lambda: len(deliverer._verdicts) == 2)
    settle = store_deliver.settle_parcel

    def refuses(tx: Any, id: int, fence: int, delivery: Delivery, **more: Any) -> bool:
        if id == 1 and delivery.receipt is not None:
            raise TypeError("no such thing")
        return settle(tx, id, fence, delivery, **more)

    monkeypatch.setattr(store_deliver, "settle_parcel", refuses)
    await deliverer.pump()
    await deliverer.drain(10)
    assert [state for state, _, _ in await bench.states()] == ["unsure", "acked"]


async def test_conversations_are_served_side_by_side(bench: Bench) -> None:
    both = asyncio.Barrier(2)

    async def together(parcel: Parcel) -> None:
        await both.wait()  # would wait for ever if the other were sent after this one

    bench.postman.does = together
    await bench.write(place="home")
    await bench.write(place="work")
    await bench.deliver()
    assert [state for state, _, _ in await bench.states()] == ["acked", "acked"]


async def test_a_passing_failure_is_tried_again_later_and_dead_in_the_end(bench: Bench) -> None:
    bench.postman.does = failing(FailureClass.TRANSIENT, "busy")
    await bench.write()
    await bench.deliver()
    assert await bench.states() == [("pending", 1, "busy")]
    await bench.deliver()
    assert len(bench.postman.asked) == 1  # not before its time
    for milliseconds in (1000, 2000, 4000, 8000):
        bench.clock.advance(milliseconds)
        await bench.deliver()
    assert [p.attempt for p in bench.postman.asked] == [1, 2, 3]
    assert await bench.states() == [("dead", 3, "busy")]


async def test_a_sick_conversation_stalls_no_other(bench: Bench) -> None:
    bench.postman.does = failing(FailureClass.TRANSIENT, "busy", match="sick")
    await bench.write("sick", "after it", place="sick")
    for _ in range(3):
        await bench.write(place="well")
    await bench.deliver(rounds=5)
    assert [p.text for p in bench.postman.arrived] == ["number 2", "number 3", "number 4"]
    assert [state for state, _, _ in await bench.states()] == ["pending", "pending", "acked", "acked", "acked"]
    bench.postman.does = bench.postman.nothing
    bench.clock.advance(1000)
    await bench.deliver(rounds=3)
    assert [p.text for p in bench.postman.arrived][3:] == ["sick", "after it"]


async def test_a_lasting_failure_is_dead_at_once_and_frees_its_conversation(bench: Bench) -> None:
    bench.postman.does = failing(FailureClass.PERMANENT, "moved away", match="number 1")
    await bench.write()
    await bench.write()
    await bench.deliver(rounds=2)
    assert await bench.states() == [("dead", 1, "moved away"), ("acked", 1, None)]


@pytest.mark.parametrize(("rule", "ends"), [("resend", "pending"), ("ask", "unsure"), ("drop", "withdrawn")])
async def test_a_cut_off_sending_follows_the_rule_of_its_channel(bench: Bench, rule: str, ends: str) -> None:
    bench.postman.does = breaks
    await bench.write()
    await bench.deliver(cut_off=rule)
    assert await bench.states() == [(ends, 1, "ConnectionResetError: the line broke")]


async def test_a_sending_that_was_cut_off_to_the_last_is_not_called_dead(bench: Bench) -> None:
    """Each of them may have arrived."""
    bench.postman.then = breaks
    await bench.write()
    for _ in range(3):
        await bench.deliver(cut_off="resend")
        bench.clock.advance(10_000)
    assert await bench.states() == [("unsure", 3, "ConnectionResetError: the line broke")]
    assert len(bench.postman.arrived) == 3


async def test_settings_go_before_the_channels_rule(bench: Bench) -> None:
    bench.settings = bench.settings.model_copy(update={"channels": {"post": {"cut_off": "drop"}}})
    bench.postman.does = breaks
    await bench.write()
    await bench.deliver(cut_off="resend")
    assert [state for state, _, _ in await bench.states()] == ["withdrawn"]


async def test_what_arrives_once_by_its_key_is_sent_again(bench: Bench) -> None:
    bench.postman.then = breaks
    await bench.write()
    await bench.deliver(cut_off="ask", keys=True)
    assert [state for state, _, _ in await bench.states()] == ["pending"]
    bench.clock.advance(1000)
    bench.postman.then = bench.postman.nothing
    await bench.deliver()
    assert len({p.key for p in bench.postman.arrived}) == 1
    assert len(bench.postman.arrived) == 2


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_channel_that_hangs_is_not_waited_for(bench: Bench, deaf: bool) -> None:
    over = asyncio.Event()

    async def hangs(parcel: Parcel) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                if not deaf:
                    raise

    bench.postman.does = hangs
    bench.settings = bench.settings.model_copy(update={"delivery": DeliverySettings(timeout_seconds=1)})
    await bench.write()
    await bench.deliver(cut_off="ask")
    assert await bench.states() == [("unsure", 1, "TimeoutError: it was not sent within 1 s")]
    over.set()
    await asyncio.sleep(0)


# pieces

LONG = " ".join(f"word{number:02}" for number in range(30))


async def test_a_long_answer_comes_in_pieces_that_fit(bench: Bench) -> None:
    await bench.write(LONG)
    await bench.deliver(longest=80)
    assert len(bench.postman.arrived) == 3
    assert " ".join(p.text for p in bench.postman.arrived) == LONG
    assert all(len(p.text) <= 80 for p in bench.postman.arrived)
    assert [p.key for p in bench.postman.arrived] == ["manydesks-1-0", "manydesks-1-1", "manydesks-1-2"]
    assert await bench.rows("select status, receipts from responses") == [
        ("acked", json.dumps(["post:1", "post:2", "post:3"]))
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_what_is_out_is_never_sent_again(bench: Bench, number: int) -> None:
    match = ("word00", "word12", "word29")[number]
    bench.postman.does = failing(FailureClass.TRANSIENT, "busy", match=match)
    await bench.write(LONG, "the next")
    await bench.deliver(longest=80)
    assert len(bench.postman.arrived) == number
    await bench.close()  # another host goes on with it
    bench.clock.advance(1000)
    bench.postman.does = bench.postman.nothing
    await bench.deliver(rounds=2, longest=80)
    assert " ".join(p.text for p in bench.postman.arrived) == f"{LONG} the next"
    assert len(bench.postman.arrived) == 4


async def test_a_channel_that_takes_less_than_before_goes_on_in_the_text(bench: Bench) -> None:
    bench.postman.does = failing(FailureClass.TRANSIENT, "busy", match="word12")
    await bench.write(LONG)
    await bench.deliver(longest=80)
    await bench.close()
    bench.clock.advance(1000)
    bench.postman.does = bench.postman.nothing
    await bench.deliver(longest=40)
    assert " ".join(p.text for p in bench.postman.arrived) == LONG


async def test_over_a_limit_it_also_comes_as_a_file(bench: Bench) -> None:
    bench.settings = bench.settings.model_copy(update={"delivery": DeliverySettings(file_over=200)})
    await bench.write(LONG, "short")
    await bench.deliver(rounds=2, longest=80, files="apart", long_as_file=True)
    said = [(p.text, [file.name for file in p.files]) for p in bench.postman.arrived]
    assert said[3:] == [("", ["answer.md"]), ("short", [])]
    (file,) = bench.postman.arrived[3].files
    assert (bench.home.path / file.path).read_text() == LONG


def attachment(home: Home, name: str, text: str) -> Attachment:
    (home.files / name).write_text(text)
    return Attachment(name=name, bytes=len(text), sha256="ab", path=f"files/{name}")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("apart", [("see", []), ("", ["a.txt"]), ("", ["b.txt"])]),
        ("along", [("see", ["a.txt", "b.txt"])]),
        (
            "none",
            [
                (
                    "see\n\n(The file 'a.txt' (3 bytes) cannot be sent here: post takes no files.)\n"
                    "(The file 'b.txt' (5 bytes) cannot be sent here: post takes no files.)",
                    [],
                )
            ],
        ),
    ],
)
async def test_files_go_as_the_channel_takes_them(bench: Bench, files: str, said: list[Any]) -> None:
    taken = [attachment(bench.home, "a.txt", "tea"), attachment(bench.home, "b.txt", "sugar")]
    await bench.write("see", files={"taken": taken})
    await bench.deliver(files=files)
    assert [(p.text, [file.name for file in p.files]) for p in bench.postman.arrived] == said


async def test_a_file_that_failed_is_sent_without_those_before_it(bench: Bench) -> None:
    taken = [attachment(bench.home, "a.txt", "tea"), attachment(bench.home, "b.txt", "sugar")]

    async def fails(parcel: Parcel) -> None:
        if any(file.name == "b.txt" for file in parcel.files):
            raise DeliveryFailed(Failure(kind=FailureClass.TRANSIENT, reason="busy"))

    bench.postman.does = fails
    await bench.write("see", files={"taken": taken})
    await bench.deliver(files="apart")
    bench.postman.does = bench.postman.nothing
    bench.clock.advance(1000)
    await bench.deliver()
    assert [(p.text, [file.name for file in p.files]) for p in bench.postman.arrived] == [
        ("see", []), ("", ["a.txt"]), ("", ["b.txt"]),
    ]  # fmt: skip


# channels that are not there


async def test_a_response_for_a_channel_that_is_not_there_is_held_and_says_why(bench: Bench) -> None:
    await bench.write("one", "two", channel="pigeon")
    await bench.write("three", channel="pigeon", place="elsewhere")
    await bench.deliver(rounds=2)
    why = "there is no channel 'pigeon' in this office"
    assert await bench.states() == [("held", 0, why)] * 3
    assert bench.postman.asked == []
    assert (await bench.kinds()).count("response_held") == 3


async def test_it_goes_on_in_order_when_the_channel_is_there(bench: Bench) -> None:
    bench.postman.closed = "the post office is closed"
    await bench.write("one", "two")
    await bench.deliver(rounds=2)
    assert await bench.states() == [("held", 0, "the channel 'post' is down: the post office is closed")] * 2
    await bench.write("three")  # before it comes up: it must not overtake
    await bench.open_again()
    await bench.deliver(rounds=4)
    assert [p.text for p in bench.postman.arrived] == ["one", "two", "three"]
    assert await bench.states() == [("acked", 1, None)] * 3
    assert (await bench.kinds()).count("response_released") >= 2
    assert await bench.kinds("channel%") == ["channel_down", "channel_up"]


async def test_a_channel_that_goes_down_is_stopped_and_begun_again(bench: Bench) -> None:
    await bench.write("one")
    await bench.deliver()
    assert bench.postman.line is not None
    bench.postman.closed = "no more letters"
    bench.postman.line.down("the connection is lost")
    await bench.until(lambda: "post" in bench.board.why)
    assert bench.postman.stopped >= 1
    await bench.write("two")
    await bench.deliver()
    assert [state for state, _, _ in await bench.states()] == ["acked", "held"]
    await bench.open_again()
    await bench.deliver()
    assert [p.text for p in bench.postman.arrived] == ["one", "two"]


async def test_a_channel_that_is_switched_off_holds(bench: Bench) -> None:
    bench.settings = bench.settings.model_copy(update={"channels": {"post": {"enabled": False}}})
    await bench.write()
    await bench.deliver()
    assert await bench.states() == [("held", 0, "the channel 'post' is switched off (channels.post.enabled)")]
    bench.board.take_settings(bench.settings.model_copy(update={"channels": {}}))
    await bench.until(lambda: "post" in bench.board.up)
    await bench.deliver()
    assert [state for state, _, _ in await bench.states()] == ["acked"]


# age


async def test_what_is_too_old_expires_instead_of_being_sent(bench: Bench) -> None:
    await bench.write("old", "as old")
    bench.clock.advance(13 * HOUR)
    await bench.write("young")
    await bench.deliver(rounds=2)
    assert [p.text for p in bench.postman.arrived] == ["young"]
    why = "it was not delivered within 12 hours"
    assert await bench.states() == [("expired", 0, why), ("expired", 0, why), ("acked", 1, None)]
    assert (await bench.kinds()).count("response_expired") == 2


async def test_what_is_held_expires_too(bench: Bench) -> None:
    await bench.write(channel="pigeon")
    await bench.deliver()
    bench.clock.advance(13 * HOUR)
    await bench.deliver()
    assert await bench.states() == [("expired", 0, "it was not delivered within 12 hours")]


async def test_a_clock_that_is_set_forward_makes_nothing_old(bench: Bench) -> None:
    await bench.write()
    bench.clock.jump(1000 * HOUR)
    await bench.deliver()
    assert [state for state, _, _ in await bench.states()] == ["acked"]


async def test_what_a_person_sends_again_is_young(bench: Bench) -> None:
    await bench.write("old")
    bench.clock.advance(13 * HOUR)
    await bench.deliver()
    await bench.store.resend(1)
    await bench.deliver()
    assert [p.text for p in bench.postman.arrived] == ["old"]


# what could not be delivered


async def notes(bench: Bench) -> list[str]:
    sql = "select json_extract(content, '$.result') from messages where kind = 'system' order by id"
    return [text for (text,) in await bench.rows(sql)]


async def test_the_agent_is_told_once_and_never_about_what_it_says_to_that(bench: Bench) -> None:
    bench.postman.does = failing(FailureClass.PERMANENT, "moved away")
    await bench.write("one", "two")
    await bench.deliver(rounds=2)
    (note,) = await notes(bench)
    assert note.startswith("Your answer did not reach you on post: moved away. It is kept as response 1")
    ((id,),) = await bench.rows("select message_id from messages where kind = 'system'")
    await bench.answer(id, "a pity")
    await bench.deliver(rounds=2)
    assert [state for state, _, _ in await bench.states()] == ["dead"] * 3
    assert len(await notes(bench)) == 1


async def test_nobody_is_told_of_the_offices_own_words(bench: Bench) -> None:
    bench.postman.does = failing(FailureClass.PERMANENT, "moved away")
    incoming = Incoming(source="post", key="post_1", text="hello", channel="post", platform_id="home")
    await bench.store.accept(incoming, default_agent="assistant", message_bytes=1000)
    (claimed,) = await bench.store.claim(batch=1, most=1)
    failure = Failure(kind=FailureClass.PERMANENT, reason="no key")
    await bench.store.run_died(claimed.session, claimed.fence, failure, RULES)
    await bench.deliver()
    assert [state for state, _, _ in await bench.states()] == ["dead"]
    assert await notes(bench) == []


async def test_a_note_counts_as_a_hop(bench: Bench) -> None:
    bench.settings = bench.settings.model_copy(
        update={"limits": bench.settings.limits.model_copy(update={"trace_messages": 1})}
    )
    bench.postman.does = failing(FailureClass.PERMANENT, "moved away")
    await bench.write()
    await bench.deliver()
    assert await notes(bench) == []
