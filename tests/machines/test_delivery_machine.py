"""Delivery as a state machine: random sendings, crashes, channels that come and go, and people's decisions.

Whatever happens, a conversation is served in its order, a piece that is out is never sent again, and every response has
ended or is visible.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from manydesks.domain.envelope import Incoming, Parcel, Progress
from manydesks.domain.errors import WrongState
from manydesks.domain.failure import RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound
from manydesks.domain.states import ResponseState, may_move
from manydesks.store.deliver import Delivery
from manydesks.store.outcome import Rules
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

T = TypeVar("T")
R = ResponseState

RULES = Rules(retry=RetryPolicy(jitter=0.0), limits=Limits(), rng=random.Random(1))
CHANNELS = ("post", "pigeon")
HOUR = 3_600_000
AGES = dict.fromkeys(CHANNELS, HOUR)
DELIVERIES = (
    Delivery(receipt="r"),
    Delivery(receipt="r"),
    Delivery(retry_in_ms=0, reason="offline"),
    Delivery(retry_in_ms=7_000, reason="offline"),
    Delivery(dead=True, reason="no such chat"),
    Delivery(unsure=True, reason="cut off"),
    Delivery(dropped=True, reason="cut off"),
)
PICKS = st.integers(0, 1_000)


class DeliveryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "office.db"
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        self.store = Store(self.path, durability="crash", clock=self.clock)
        self.do(self.store.add_agent(id="ada", provider="rehearsal"))
        self.written = 0
        self.going: list[Parcel] = []
        #: pieces that are out, by response: none may be lost, or come twice
        self.out: dict[int, list[str]] = {}
        self.before: dict[int, int] = {}

    def teardown(self) -> None:
        self.store.close()
        self.loop.close()
        self.folder.cleanup()

    def do(self, verb: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(verb)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.do(self.store._do(lambda tx: tx.all(sql)))

    # what is there to be delivered

    @rule(channel=st.sampled_from(CHANNELS), place=st.sampled_from("ab"), parts=st.integers(1, 3))
    def somebody_is_answered(self, channel: str, place: str, parts: int) -> None:
        self.written += 1
        key = f"{channel}_{self.written}"
        incoming = Incoming(source="x", key=key, text="hello", channel=channel, platform_id=place)
        self.do(self.store.accept(incoming, default_agent="ada", message_bytes=1000))
        for claimed in self.do(self.store.claim(batch=1, most=1)):
            seq = max(self.do(self.store.cursors(claimed.session)).values(), default=-1)
            message, about = claimed.messages[0].message_id, {"run": claimed.run, "fence": claimed.fence, "at": 1}
            said = tuple(
                Outbound(id=f"out_{claimed.fence}_{n}", seq=seq + 2 * n, in_reply_to=message, kind="chat",
                         content={"text": f"part {n}"}, **about)
                for n in range(1, parts + 1)
            )  # fmt: skip
            last = seq + 2 * (parts + 1)
            ack = Ack(message=message, seq=last, status="completed", **about)
            page = Collected(epoch="ab" * 16, last_seq=last, messages=said, acks=(ack,), steps=(), state={})
            self.do(self.store.take(claimed.session, page, RULES))

    # the host

    @rule(up=st.lists(st.sampled_from(CHANNELS), unique=True), most=st.integers(1, 4), aged=st.booleans())
    def pump(self, up: list[str], most: int, aged: bool) -> None:
        ages = AGES if aged else {}
        if aged:
            self.do(self.store.expire_responses({}, HOUR))
        for parcel in self.do(self.store.claim_parcels(up, most=most, max_age_ms=ages, there=up)):
            assert parcel.channel in up
            assert list(parcel.receipts) == self.out.get(parcel.id, [])
            earlier = (
                f"select id from responses where lane = (select lane from responses where id = {parcel.id}) "
                f"and state in (0, 1, 2) and position < (select position from responses where id = {parcel.id})"
            )
            assert self.rows(earlier) == [], "somebody was overtaken"
            self.going.append(parcel)

    @precondition(lambda self: self.going)
    @rule(pick=PICKS)
    def a_piece_is_out(self, pick: int) -> None:
        parcel = self.going[pick % len(self.going)]
        sent = self.out.setdefault(parcel.id, [])
        receipt = f"p{len(sent) + 1}"
        if self.do(self.store.piece_sent(parcel, receipt, Progress(chars=len(sent) + 1))):
            sent.append(receipt)

    @precondition(lambda self: self.going)
    @rule(pick=PICKS, delivery=st.sampled_from(DELIVERIES), again=st.booleans())
    def it_ends(self, pick: int, delivery: Delivery, again: bool) -> None:
        parcel = self.going.pop(pick % len(self.going))
        if self.do(self.store.settle(parcel, delivery)) and delivery.receipt is not None:
            self.out.setdefault(parcel.id, []).append(delivery.receipt)
        if again:
            assert self.do(self.store.settle(parcel, Delivery(receipt="late"))) is False

    @rule(rule=st.sampled_from(["ask", "resend", "drop"]))
    def the_host_is_killed(self, rule: str) -> None:
        self.store.close()
        self.store = Store(self.path, durability="crash", clock=self.clock)
        self.do(self.store.release(RULES, dict.fromkeys(CHANNELS, rule)))
        assert self.rows("select 1 from responses where state = 1") == []
        for parcel in self.going:
            assert self.do(self.store.settle(parcel, Delivery(receipt="late"))) is False
        self.going.clear()

    @rule(ms=st.sampled_from([1, 7_000, HOUR // 2, 2 * HOUR]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    # people and clients

    @precondition(lambda self: self.before)
    @rule(pick=PICKS, verb=st.sampled_from(["resend", "drop_response", "acknowledge"]))
    def by_hand(self, pick: int, verb: str) -> None:
        id = sorted(self.before)[pick % len(self.before)]
        state = R(self.before[id])
        after = {"resend": R.PENDING, "drop_response": R.WITHDRAWN, "acknowledge": R.ACKED}[verb]
        refused = {R.SENDING, R.WITHDRAWN, R.ACKED} | ({R.PENDING, R.HELD} if verb == "resend" else set())
        if state in refused and not (verb == "acknowledge" and state is R.ACKED):
            with pytest.raises(WrongState):
                self.do(getattr(self.store, verb)(id))
            return
        self.do(getattr(self.store, verb)(id))
        assert self.rows(f"select state from responses where id = {id}") == [(int(after),)]

    @rule(channel=st.sampled_from(CHANNELS))
    def a_client_asks(self, channel: str) -> None:
        waiting = [row["id"] for row in self.do(self.store.fetch_responses(channel))]
        sql = f"select id from responses where channel = '{channel}' and state in (0, 2) order by id"
        assert waiting == [id for (id,) in self.rows(sql)]

    # what holds

    @invariant()
    def only_allowed_moves(self) -> None:
        now = dict(self.rows("select id, state from responses"))
        for id, state in self.before.items():
            ways = {state} | {int(s) for s in R if may_move(R(state), s)}
            ways |= {int(s) for way in list(ways) for s in R if may_move(R(way), s)}  # two in one step
            assert now[id] in ways, (R(state), R(now[id]))
        self.before = now

    @invariant()
    def receipts_are_kept(self) -> None:
        for id, receipts in self.rows("select id, receipts from responses where receipts is not null"):
            assert json.loads(receipts) == self.out.get(id), id

    @invariant()
    def lanes_and_counters_are_sound(self) -> None:
        head = "(select min(position) from responses h where h.lane = t.lane and h.state = 0)"
        claimed = "exists (select 1 from claims c where c.lane = t.lane)"
        wrong = f"ready <> 0 and (state <> 0 or {claimed} or position <> {head})"
        assert self.rows(f"select id from responses t where {wrong}") == []
        asleep = f"ready = 0 and state = 0 and not {claimed} and position = {head}"
        assert self.rows(f"select id from responses t where {asleep}") == []
        counted = "select agent, state, n from counters where scope = 'responses' and n <> 0 order by 1, 2"
        there = "select queue, state, count(*) from responses group by 1, 2 order by 1, 2"
        assert self.rows(counted) == self.rows(there)
        assert self.rows("select id from responses where hold_reason is not null and state <> 2") == []

    @invariant()
    def nobody_is_told_for_ever(self) -> None:
        notes = "select trace, parent, count(*) from messages where kind = 'system' group by 1, 2 having count(*) > 1"
        assert self.rows(notes) == []


SMALL = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
def test_delivery() -> None:
    run_state_machine_as_test(DeliveryMachine, settings=SMALL)


@pytest.mark.deep
@pytest.mark.timeout(1_200)
def test_delivery_deep() -> None:
    run_state_machine_as_test(DeliveryMachine, settings=settings(SMALL, max_examples=1_500, derandomize=False))
