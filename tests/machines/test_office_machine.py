"""The real store under random interleavings of everything that can happen to an office, with time moved by hand.

After every step the promises of the store are checked against the file itself; at the end of every example all desks
and channels do their work, and nothing may be left over.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from manydesks.domain.envelope import Claimed, Incoming, Parcel
from manydesks.domain.errors import Duplicate, WrongState
from manydesks.domain.failure import Failure, FailureClass, RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound
from manydesks.store.database import open_reader
from manydesks.store.deliver import Delivery
from manydesks.store.outcome import Rules
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

T = TypeVar("T")

#: few agents and places, so that lanes get long; both are the team `duo`
AGENTS = ("ada", "bob")
#: how long messages wait for others: over soon, or never before the end
WAITS = (90_000, 10**10)
#: what a person may write besides one tag for each agent, with whom it is for, in order
LAID_OUT = {
    "[@ada: one] -> [@bob: two]": ["ada", "bob"],
    "[@bob: one] -> [@ada: two] -> [@bob: three]": ["bob", "ada", "bob"],
    "[@ada,bob: one] -> [@ada: two]": ["ada", "bob", "ada"],
    "[@ada: one] [@bob: two] => [@ada: three]": ["ada", "bob", "ada"],
    "[@ada: one] -> [@bob: two] [@ada: three] => [@bob: four] -> [@ada: five]": ["ada", "bob", "bob", "ada"],
    "[#duo: news]": ["ada", "bob"],
    "[@bob: one] [#duo: news]": ["bob", "ada", "bob"],
}
EPOCHS = ("aa" * 16, "bb" * 16)
#: what a stale fence must leave as it is; the ledger may say that it came
STATE = (
    "messages", "responses", "claims", "runs", "run_messages", "agent_messages", "counters", "bodies", "sessions",
    "joins", "join_parts", "chat_messages",
)  # fmt: skip

#: what a desk does with one message of its claim
ANSWER, COMPLETE, HAND_OFF, CANCEL, IGNORE = "answer", "complete", "hand off", "cancel", "ignore"
CHAIN, JOIN, POST = "lay out a chain", "lay out a join", "post in the room"
#: what it hands over then, to its mate
HANDED = {HAND_OFF: "[@{0}: go on]", CHAIN: "[@{0}: one] -> [@{0}: two]", JOIN: "[@{0}: one] => [@{0}: two]",
          POST: "[#duo: news]"}  # fmt: skip
FAILURES = tuple(FailureClass)
#: events that end a message
ENDED = {"message_completed", "message_dead", "message_cancelled"}
ACTS = st.sampled_from(
    [ANSWER, ANSWER, ANSWER, COMPLETE, COMPLETE, COMPLETE, *HANDED, CANCEL, IGNORE, *FAILURES, FailureClass.TRANSIENT]
)

DELIVERIES = st.sampled_from(
    [
        Delivery(receipt="r"),
        Delivery(receipt="r"),
        Delivery(retry_in_ms=0, reason="offline"),
        Delivery(retry_in_ms=7_000, reason="offline"),
        Delivery(dead=True, reason="no such chat"),
        Delivery(unsure=True, reason="cut off"),
    ]
)

PICK = st.integers(0, 10_000)
RARELY = st.sampled_from([False, False, False, True])
ACT_LISTS = st.lists(ACTS, min_size=1, max_size=4)


def step(verb: str, weight: int, /, **arguments: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    # each a strategy of its own: `one_of` counts the same one once
    return [st.tuples(st.just(verb), st.fixed_dictionaries(arguments)) for _ in range(weight)]


#: One rule with weights of its own: as a rule each, they would be left out of most examples or come equally often, and
#: hardly a message would live long enough for its third attempt.
STEPS = st.one_of(
    step(
        "accept", 5,
        key=st.integers(0, 30),
        agents=st.lists(st.sampled_from(AGENTS), min_size=1, max_size=2, unique=True),
        place=st.sampled_from(["x", "x", "x", "y"]),
        priority=st.sampled_from([0, 0, 5]),
    )
    + step("lay_out", 4, key=st.integers(0, 30), text=st.sampled_from(sorted(LAID_OUT)), wait=st.sampled_from(WAITS))
    + step("claim", 5, batch=st.integers(1, 4), most=st.integers(1, 3))
    + step("take", 14, pick=PICK, acts=ACT_LISTS, stale=RARELY, epoch=st.sampled_from(EPOCHS))
    + step("take_again", 1, pick=PICK)
    + step("restore_a_page", 1, pick=PICK)
    + step("run_dies", 5, pick=PICK, kind=st.sampled_from([*FAILURES, *[FailureClass.TRANSIENT] * 5]), stale=RARELY)
    + step("run_is_released", 1, pick=PICK, stale=RARELY)
    + step("claim_parcels", 8, most=st.integers(1, 3))
    + step("settle", 8, pick=PICK, delivery=DELIVERIES, stale=RARELY)
    + step("the_host_is_killed", 1, resend=st.booleans(), pick=PICK, acts=ACT_LISTS, wrote=st.booleans())
    + step("by_hand", 1, pick=PICK, verb=st.sampled_from(["retry", "edit", "drop"]))
    + step("try_again", 2, pick=PICK)
    + step("let_go", 1, pick=PICK)
    + step("cancel", 1, pick=PICK, waiting=st.booleans())
    + step("stop", 3, pick=PICK, what=st.sampled_from(["message", "message", "run", "session", "agent", "all"]))
    + step("a_quiet_hour", 2, rounds=st.integers(1, 4))
    + step("pause", 1, agent=st.sampled_from(AGENTS), paused=st.booleans())
    + step("archive", 2, back=st.sampled_from([0, 0, 3, 9, 40]))
    + step(
        "prune", 3,
        steps=st.integers(1, 4),
        keep_ms=st.sampled_from([0, 0, 3_000, 300_000]),
        most=st.sampled_from([5, 20, 500]),
        arrival_ms=st.sampled_from([10**12, 10**12, 60_000]),
    )
    + step("time_passes", 2, milliseconds=st.sampled_from([1, 4_000, 60_000, 100_000]))
    + step("the_clock_is_set", 1, milliseconds=st.sampled_from([-3_600_000, 3_600_000]))
)  # fmt: skip


class OfficeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="md-machine-")
        self.path = Path(self.folder.name) / "office.db"
        self.clock = ManualClock()
        self.rules = Rules(
            retry=RetryPolicy(max_attempts=4), limits=Limits(hops=3, per_trace=8), rng=random.Random(1),
            wait_ms=WAITS[0],
        )  # fmt: skip
        self.store = Store(self.path, durability="crash", clock=self.clock)
        self.eyes = open_reader(self.path)
        for agent in AGENTS:
            self.do(self.store.add_agent(id=agent, provider="rehearsal"))
        self.do(self.store.add_team(id="duo", name="Duo", leader="ada", members=AGENTS))
        #: everything that was ever handed out, live or stale
        self.runs: list[Claimed] = []
        self.parcels: list[Parcel] = []
        self.pages: list[tuple[str, Collected]] = []
        self.seqs: dict[tuple[str, str], int] = {}
        self.outs = 0
        self.restored = 0
        #: key → (trace, how many messages it was routed to)
        self.accepted: dict[str, tuple[str, int]] = {}
        #: traces of arrivals that need not be recognised any more
        self.forgotten: set[str] = set()
        self.final: dict[tuple[str, int], str] = {}
        self.fence = 0
        self.head = 0
        self.paused: set[str] = set()
        #: dead letters that were tried again by hand
        self.requeued: set[str] = set()
        #: whether only what is in the lake may go
        self.require_archive = True
        #: trace → the highest seq that was ever said of it
        self.last: dict[str, int] = {}
        #: (table, id) → trace, of every message and response that is there
        self.there: dict[tuple[str, int], str] = {}
        #: message → what was ever said of it, in order, also what is pruned by now
        self.said: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}
        self.heard = 0
        #: message → (kind, messages it waits for), of every one that ever waited
        self.waits: dict[str, tuple[str, list[str]]] = {}
        #: messages that were refused with an answer
        self.refused: set[str] = set()

    # the office's hands

    def do(self, verb: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(verb)

    def steady(self) -> int:
        """The file's own time, which goes on whatever becomes of the wall clock."""
        ((offset,),) = self.rows("select seq from marks where name like 'boot:%'")
        return int(offset) + self.clock.since_boot()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.eyes.execute(sql, values).fetchall()

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: self.rows(f"select * from {table}") for table in STATE}

    def live(self) -> set[int]:
        return {fence for (fence,) in self.rows("select fence from claims")}

    def choose(self, pick: int, *, stale: bool) -> Claimed | None:
        """A run that goes on, begun now if there is none, so that examples get somewhere; or any that ever was."""
        if not stale and not any(claimed.fence in self.live() for claimed in self.runs):
            self.clock.advance(60_000)
            self.begin(batch=4, most=2)
        live = self.live()
        going = [claimed for claimed in self.runs if claimed.fence in live]
        among = going if going and not stale else self.runs[-5:]
        return among[pick % len(among)] if among else None

    def unchanged_if(self, stale: bool, act: Callable[[], Any]) -> None:
        before = self.state() if stale else None
        act()
        if before is not None:
            assert self.state() == before, "a stale fence has changed something"

    def page(self, claimed: Claimed, acts: list[str], epoch: str) -> Collected:
        """What the desk writes when it does these things with its messages, in order."""
        messages: list[Outbound] = []
        acks: list[Ack] = []
        place = (claimed.session, epoch)

        def seq() -> int:
            self.seqs[place] = self.seqs.get(place, -1) + 2
            return self.seqs[place]

        def say(text: str, to: str) -> None:
            self.outs += 1
            messages.append(
                Outbound(
                    id=f"out_{self.outs}", seq=seq(), run=claimed.run, fence=claimed.fence, in_reply_to=to, at=1,
                    kind="chat", content={"text": text},
                )
            )  # fmt: skip

        def ack(message: str, status: Any, failure: Any = None) -> None:
            acks.append(
                Ack(
                    message=message, seq=seq(), run=claimed.run, fence=claimed.fence, status=status, at=1,
                    failure=failure, reason="no luck" if failure else None,
                )
            )  # fmt: skip

        for work, act in zip(claimed.messages, acts, strict=False):
            if act == ANSWER:
                say("part of it", work.message_id)
            elif act == COMPLETE:
                say("all of it", work.message_id)
                ack(work.message_id, "completed")
            elif act in HANDED:
                mate = AGENTS[(AGENTS.index(claimed.agent) + 1) % len(AGENTS)]
                say(HANDED[act].format(mate), work.message_id)
                ack(work.message_id, "completed")
            elif act == CANCEL:
                ack(work.message_id, "cancelled")
            elif act != IGNORE:
                ack(work.message_id, "failed", str(act))
        return Collected(epoch=epoch, last_seq=self.seqs.get(place, 0), messages=tuple(messages), acks=tuple(acks))

    # what can happen

    @rule(step=STEPS)
    def happens(self, step: tuple[str, dict[str, Any]]) -> None:
        verb, arguments = step
        getattr(self, verb)(**arguments)
        self.listen()

    def listen(self) -> None:
        self.last |= dict(self.rows("select trace, max(seq) from events where trace is not null group by trace"))
        for seq, kind, message, data in self.rows(
            "select seq, kind, message, data from events where seq > ? and message is not null order by seq", self.heard
        ):
            if kind == "message_enqueued" and self.has_ended(message):
                # its key was let go of with the message that had it: this is another one
                del self.said[message]
                self.refused.discard(message)
                self.waits = {one: known for one, known in self.waits.items() if message not in (one, *known[1])}
            self.said.setdefault(message, []).append((seq, kind, json.loads(data)))
            self.heard = seq
        for message, kind, parts in self.rows(
            "select j.message, j.kind, json_group_array(p.message) from joins j join join_parts p on p.join_id = j.id "
            "group by j.id"
        ):
            self.waits[message] = (kind, json.loads(parts))
        self.refused |= {
            message
            for (message,) in self.rows("select message_id from responses where operation = 'notice' and run not null")
        }

    @initialize(require_archive=st.booleans())
    def first(self, require_archive: bool) -> None:
        self.require_archive = require_archive
        self.head = self.rows("select seq from ledger_head")[0][0]

    def accept(self, key: int, agents: list[str], place: str, priority: int) -> None:
        self.arrives(key, " ".join(f"[@{agent}: hello]" for agent in agents), agents, place=place, priority=priority)

    def lay_out(self, key: int, text: str, wait: int) -> None:
        self.arrives(key, text, LAID_OUT[text], wait_ms=wait)

    def arrives(
        self, key: int, text: str, agents: list[str], *, place: str = "x", priority: int = 0, wait_ms: int = 1
    ) -> None:
        name = f"api_{key}"
        incoming = Incoming(
            source="api", key=name, text=text, channel="console", platform_id=place, priority=priority
        )  # fmt: skip
        before = self.state()
        try:
            accepted = self.do(self.store.accept(incoming, default_agent="ada", message_bytes=1000, wait_ms=wait_ms))
        except Duplicate:
            assert name in self.accepted
            assert self.state() == before
            return
        assert name not in self.accepted
        assert [message["agent"] for message in accepted.messages] == agents
        self.accepted[name] = (accepted.trace, len(agents))

    def claim(self, batch: int, most: int) -> None:
        self.begin(batch=batch, most=most)

    def begin(self, *, batch: int, most: int) -> None:
        begun = self.do(self.store.claim(batch=batch, most=most))
        assert len(begun) <= most
        for claimed in begun:
            assert claimed.agent not in self.paused, "a paused agent has begun a run"
            assert claimed.fence > self.fence, "a fence was given twice"
            self.fence = claimed.fence
            assert 1 <= len(claimed.messages) <= batch
            if any(work.attempt >= 3 for work in claimed.messages):
                assert len(claimed.messages) == 1, "poison shares a batch"
            # the first was due when it was marked, whatever the wall clock says since
            for work in claimed.messages[1:]:
                ((not_before,),) = self.rows("select not_before from messages where id = ?", work.row)
                assert not_before is None or not_before <= self.steady(), "a batch holds a row whose timer runs"
        self.runs += begun

    def take(self, pick: int, acts: list[str], stale: bool, epoch: str) -> None:
        claimed = self.choose(pick, stale=stale)
        if claimed is None:
            return
        page = self.page(claimed, acts, epoch)
        self.pages.append((claimed.session, page))
        self.unchanged_if(
            claimed.fence not in self.live(), lambda: self.do(self.store.take(claimed.session, page, self.rules))
        )

    def take_again(self, pick: int) -> None:
        if not self.pages:
            return
        session, page = self.pages[-1 - pick % min(3, len(self.pages))]
        before = self.state(), self.rows("select * from outbound_cursors"), self.rows("select seq from ledger_head")
        self.do(self.store.take(session, page, self.rules))
        after = self.state(), self.rows("select * from outbound_cursors"), self.rows("select seq from ledger_head")
        assert after == before, "a page was taken twice"

    def restore_a_page(self, pick: int) -> None:
        """A desk's file is restored from a copy: another epoch, the same rows, each of them said already or stale."""
        if not self.pages:
            return
        session, page = self.pages[-1 - pick % min(3, len(self.pages))]
        self.restored += 1
        again = replace(page, epoch=f"{self.restored:032x}", acks=())
        before = self.state()
        self.do(self.store.take(session, again, self.rules))
        assert self.state() == before, "a row was said twice"

    def run_dies(self, pick: int, kind: FailureClass, stale: bool) -> None:
        claimed = self.choose(pick, stale=stale)
        if claimed is None:
            return
        failure = Failure(kind=kind, reason="the runner is gone")
        self.unchanged_if(
            claimed.fence not in self.live(),
            lambda: self.do(self.store.run_died(claimed.session, claimed.fence, failure, self.rules)),
        )

    def run_is_released(self, pick: int, stale: bool) -> None:
        claimed = self.choose(pick, stale=stale)
        if claimed is None:
            return
        self.unchanged_if(
            claimed.fence not in self.live(),
            lambda: self.do(self.store.run_released(claimed.session, claimed.fence, "stop")),
        )

    def claim_parcels(self, most: int) -> None:
        parcels = self.do(self.store.claim_parcels(["console"], most=most))
        assert len(parcels) <= most
        for parcel in parcels:
            assert parcel.fence > self.fence
            self.fence = parcel.fence
        self.parcels += parcels

    def settle(self, pick: int, delivery: Delivery, stale: bool) -> None:
        if not self.parcels:
            return
        live = self.live()
        going = [parcel for parcel in self.parcels if parcel.fence in live]
        among = going if going and not stale else self.parcels[-5:]
        parcel = among[pick % len(among)]
        over = parcel.fence not in live
        self.unchanged_if(over, lambda: self._settle(parcel, delivery, ours=not over))

    def _settle(self, parcel: Parcel, delivery: Delivery, *, ours: bool) -> None:
        assert self.do(self.store.settle(parcel, delivery)) is ours

    def the_host_is_killed(self, resend: bool, pick: int, acts: list[str], wrote: bool) -> None:
        """A new incarnation takes what the desks wrote, then releases the rest."""
        self.store.close()
        self.store = Store(self.path, durability="crash", clock=self.clock)
        live = [claimed for claimed in self.runs if claimed.fence in self.live()]
        found = self.do(self.store.open_runs())
        assert sorted(found) == sorted((run.agent, run.session, run.fence) for run in live)
        if live and wrote:
            claimed = live[pick % len(live)]
            page = self.page(claimed, acts, EPOCHS[0])
            self.pages.append((claimed.session, page))
            self.do(self.store.take(claimed.session, page, self.rules))
        under_way = self.rows(
            "select (select count(*) from messages where state = 1) + (select count(*) from responses where state = 1)"
        )[0][0]
        assert self.do(self.store.release(self.rules, {"console": "resend"} if resend else {})) == under_way
        assert self.live() == set()

    def by_hand(self, pick: int, verb: str) -> None:
        dead = self.rows("select message_id, state from messages where state = 5 order by id")
        everything = dead or self.rows("select message_id, state from messages order by id")
        if not everything:
            return
        message, state = everything[pick % len(everything)]
        before = self.state()
        act = {
            "retry": lambda: self.store.retry(message),
            "edit": lambda: self.store.retry(message, "in other words"),
            "drop": lambda: self.store.drop(message),
        }[verb]
        if state == 5 or (state, verb) == (2, "drop"):
            self.do(act())
            if verb != "drop":
                self.requeued.add(message)
        else:
            with pytest.raises(WrongState):
                self.do(act())
            assert self.state() == before

    def try_again(self, pick: int) -> None:
        """A dead letter that somebody waits for."""
        dead = self.rows(
            "select message_id from messages m where state = 5 and exists "
            "(select 1 from join_parts p join joins j on j.id = p.join_id where p.message = m.message_id "
            "and j.ended_at is null) order by id"
        )
        if dead:
            (message,) = dead[pick % len(dead)]
            self.do(self.store.retry(message))
            self.requeued.add(message)

    def let_go(self, pick: int) -> None:
        """A person lets a held message go on: one that waits with what there is, one of the loop guard's may wait."""
        held = self.rows("select message_id, hold_reason from messages where state = 2 order by id")
        if not held:
            return
        message, reason = held[pick % len(held)]
        goes_on = self.rows("select 1 from joins where message = ? and ended_at is null", message)
        self.do(self.store.release_held(message))
        expected = "held" if reason == "loop_guard" and goes_on else "pending"
        assert self.rows("select status from messages where message_id = ?", message) == [(expected,)]

    def cancel(self, pick: int, waiting: bool) -> None:
        which = "state in (0, 2)" if waiting else "state not in (0, 2)"
        everything = self.rows(f"select message_id, state from messages where {which} order by id")
        if not everything:
            return
        message, state = everything[pick % len(everything)]
        before = self.state()
        if state in (0, 2):
            self.do(self.store.cancel(message))
            assert self.rows("select status from messages where message_id = ?", message) == [("cancelled",)]
        elif state == 4:
            self.do(self.store.cancel(message))
            assert self.state() == before
        else:
            with pytest.raises(WrongState):
                self.do(self.store.cancel(message))
            assert self.state() == before

    def stop(self, pick: int, what: str) -> None:
        """With a host: what runs is cancelled too, and its run is somebody's to end, sooner or later."""
        running = self.rows("select message_id, run, session, agent from messages where state = 1 order by id")
        if not running:
            return
        message, run, session, agent = running[pick % len(running)]
        fences = self.live()
        if what in ("agent", "all"):
            done = self.do(self.store.cancel_all(agent if what == "agent" else None, host=True))
        else:
            done = self.do(self.store.cancel({"message": message, "run": run, "session": session}[what], host=True))
        assert self.rows("select status from messages where message_id = ?", message) == [("cancelled",)]
        assert {fence for _, fence in done.runs} <= fences
        # nobody sits down at a desk that is still in use
        assert self.live() == fences

    def pause(self, agent: str, paused: bool) -> None:
        changed = self.do(self.store.pause(agent) if paused else self.store.resume(agent))
        assert changed is (paused is not (agent in self.paused))
        (self.paused.add if paused else self.paused.discard)(agent)

    def archive(self, back: int) -> None:
        self.do(self.store.mark_archived(max(0, self.head - back)))

    def prune(self, steps: int, keep_ms: int, most: int, arrival_ms: int) -> None:
        for _ in range(steps):
            self.prune_once(keep_ms, most, arrival_ms)

    def prune_once(self, keep_ms: int, most: int, arrival_ms: int) -> None:
        known = {key for (key,) in self.rows("select key from arrivals")}
        words = {id for (id,) in self.rows("select body from agent_messages")}
        done = self.do(
            self.store.prune(keep_ms=keep_ms, require_archive=self.require_archive, most=most, arrival_ms=arrival_ms)
        )
        assert sum(done.counts.values()) <= most
        now = {(table, id) for table in ("messages", "responses") for (id,) in self.rows(f"select id from {table}")}
        gone = {row: trace for row, trace in self.there.items() if row not in now}
        assert len(gone) == done.messages + done.responses
        for trace in gone.values():
            assert not self.require_archive or self.last[trace] <= done.archived, "gone before the lake had it"
        self.final = {row: status for row, status in self.final.items() if row not in gone}
        self.there = {row: trace for row, trace in self.there.items() if row not in gone}
        for key in known - {key for (key,) in self.rows("select key from arrivals")}:
            self.forgotten.add(self.accepted.pop(key)[0])
        assert words <= {id for (id,) in self.rows("select id from bodies")}, "what an agent remembers is gone"

    def a_quiet_hour(self, rounds: int) -> None:
        """Some of what waits is answered and arrives, so that traces come to an end."""
        for _ in range(rounds):
            self.answer_and_deliver()
        self.clock.advance(1)

    def time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.do(self.store.extend())

    def the_clock_is_set(self, milliseconds: int) -> None:
        self.clock.jump(milliseconds)

    # what always holds

    def none_of(self, what: str, sql: str, *values: Any) -> None:
        found = self.rows(sql, *values)
        assert found == [], f"{what}: {found}"

    @invariant()
    def lanes(self) -> None:
        for table in ("messages", "responses"):
            claimed = "exists (select 1 from claims c where c.lane = t.lane)"
            head = f"(select min(position) from {table} h where h.lane = t.lane and h.state = 0 and h.trigger = 1)"
            self.none_of(
                "marked, but not the head of an unclaimed lane",
                f"select id from {table} t where ready <> 0 and (state <> 0 or {claimed} or position <> {head})",
            )
            self.none_of(
                "stuck: the head of an unclaimed lane is neither ready nor has a timer",
                f"select id from {table} t where state = 0 and not {claimed} and position = {head} "
                "and not (ready = 1 or (ready = 2 and not_before is not null))",
            )
            self.none_of(
                "under way without its claim",
                f"select id from {table} t where state = 1 "
                "and not exists (select 1 from claims c where c.fence = t.fence and c.lane = t.lane)",
            )
            self.none_of(
                "two claims in one lane",
                f"select lane from {table} where state = 1 group by lane having count(distinct fence) > 1",
            )
            self.none_of(
                "a claim that skips a row of its lane",
                f"select t.id from {table} t join {table} u on u.lane = t.lane and u.state = 1 and t.state = 0 "
                "and t.position < u.position",
            )
        self.none_of(
            "a claim of nothing",
            "select fence from claims c where not exists (select 1 from messages where fence = c.fence and state = 1) "
            "and not exists (select 1 from responses where fence = c.fence and state = 1) "
            # but for a run that was stopped, and has not ended yet
            "and not exists (select 1 from runs r where r.fence = c.fence and r.outcome = 'cancelled')",
        )
        self.none_of(
            "a batch for two places",
            "select fence from messages where state = 1 group by fence having count(distinct platform_id) > 1",
        )
        self.none_of(
            "a run that goes on without its claim, or has ended with it",
            "select id from runs r where (ended_at is null) <> exists (select 1 from claims c where c.fence = r.fence)",
        )

    @invariant()
    def ledger_and_counters(self) -> None:
        ((head, count, highest),) = self.rows(
            "select h.seq, count(e.seq), coalesce(max(e.seq), 0) from ledger_head h left join events e on true"
        )
        marks = dict(self.rows("select name, seq from marks"))
        pruned = marks.get("pruned", 0)
        assert head == pruned + count == highest, "a gap in the ledger"
        assert not self.require_archive or pruned <= marks.get("archived", 0), "pruned before the lake had it"
        assert head >= self.head
        self.head = head
        for table in ("messages", "responses"):
            self.none_of(
                "a counter that lies",
                f"select * from (select queue, state, count(*) n from {table} group by queue, state) r full join "
                f"(select agent, state, n from counters where scope = '{table}') c "
                "on c.agent = r.queue and c.state = r.state where coalesce(c.n, 0) <> coalesce(r.n, 0)",
            )

    @invariant()
    def only_pruning_removes(self) -> None:
        now = {
            (table, id): trace
            for table in ("messages", "responses")
            for id, trace in self.rows(f"select id, trace from {table}")
        }
        assert self.there.items() <= now.items()
        self.there = now
        # with a trace go all of its rows, in one step or several; until the last is gone its last event stays
        self.none_of("a run without messages", "select id from runs where id not in (select run from run_messages)")
        self.none_of(
            "a text that nobody names",
            "select id from bodies where id not in (select body from arrivals union select body from messages "
            "union select body from responses union select original_body from responses "
            "union select body from agent_messages union select coalesce(body, 0) from events "
            "union select body from chat_messages union select body from joins)",
        )

    @invariant()
    def each_key_yields_one_chain(self) -> None:
        found = self.rows(
            "select a.key, a.trace, a.pruned_at, "
            "(select count(*) from messages m where m.trace = a.trace and m.hop = 0) from arrivals a"
        )
        assert {key: trace for key, trace, _, _ in found} == {key: trace for key, (trace, _) in self.accepted.items()}
        for key, trace, pruned_at, roots in found:
            if pruned_at is not None:
                assert roots == 0
            elif self.last[trace] > self.first_event():
                assert roots == self.accepted[key][1]
        arrivals = {trace for trace, _ in self.accepted.values()}
        for id, trace in self.rows("select id, trace from messages"):
            # what has not ended, or is dead, may outlive its arrival
            assert trace in arrivals | self.forgotten, f"{id} is outside the chain of its arrival"

    def first_event(self) -> int:
        ((first,),) = self.rows("select min(seq) from events")
        return int(first)

    @invariant()
    def what_has_ended_stays_so(self) -> None:
        now: dict[tuple[str, int], str] = {}
        for table, words in (
            ("messages", ("completed", "cancelled")),
            ("responses", ("acked", "withdrawn", "expired")),
        ):
            for id, status in self.rows(f"select id, status from {table}"):
                if status in words:
                    now[table, id] = status
        assert self.final.items() <= now.items()
        self.final = now
        for kind in ("message_completed", "response_delivered"):
            of = "message" if kind == "message_completed" else "json_extract(data, '$.response')"
            self.none_of(
                f"{kind} twice", f"select {of} from events where kind = ? group by 1 having count(*) > 1", kind
            )

    @invariant()
    def nothing_is_said_twice_and_nobody_is_left_untold(self) -> None:
        self.none_of(
            "two attempts of one message both have output",
            "select message_id from responses r where operation = 'message' and status in "
            "('pending', 'sending', 'unsure', 'acked') and message_id not in (select value from json_each(?)) "
            "group by message_id having count(distinct run) > 1",
            json.dumps(sorted(self.requeued)),
        )
        self.none_of(
            "a dead message whose sender was not told",
            "select message_id from messages m where state = 5 and not exists "
            "(select 1 from responses r where r.message_id = m.message_id and r.operation = 'notice')",
        )
        self.none_of("held without a reason", "select id from messages where state = 2 and hold_reason is null")

    @invariant()
    def who_waits_is_neither_forgotten_nor_let_go_too_early(self) -> None:
        waiting = "j.ended_at is null"
        of = "(select m.{0} from messages m where m.message_id = {1})"
        self.none_of(
            "its message does not wait any more",
            f"select j.id from joins j where {waiting} and {of.format('state', 'j.message')} <> 2",
        )
        self.none_of(
            "held for others, but it waits for nothing",
            "select m.id from messages m where state = 2 and hold_reason in ('chain', 'join') and not exists "
            f"(select 1 from joins j where j.message = m.message_id and j.id = m.hold_ref and {waiting} "
            "and j.kind = m.hold_reason and j.deadline = m.hold_until)",
        )
        unended = (
            f"exists (select 1 from join_parts p where p.join_id = j.id and {of.format('state', 'p.message')} < 3)"
        )
        self.none_of(
            "all it waits for has ended", f"select j.id from joins j where {waiting} and j.state = 0 and not {unended}"
        )
        # of a chain: dead, or itself a step of one that is broken
        failed = (
            "exists (select 1 from join_parts p join messages m on m.message_id = p.message "
            "left join joins o on o.message = p.message and o.ended_at is null and o.state = 3 "
            "where p.join_id = j.id and (m.state = 5 or o.id is not null))"
        )
        self.none_of(
            "a chain that is broken without a reason, or whole with one",
            f"select j.id from joins j where {waiting} and j.kind = 'chain' and (j.state = 3) <> {failed}",
        )
        self.none_of(
            "a chain that waits for what will never come",
            f"select j.id from joins j join join_parts p on p.join_id = j.id where {waiting} and j.kind = 'chain' "
            f"and {of.format('state', 'p.message')} = 4",
        )
        for message, (kind, parts) in self.waits.items():
            said = self.said.get(message, [])
            released = [(seq, data) for seq, word, data in said if word == "message_released" and data.get("ref")]
            assert len(released) <= 1, f"{message} was released twice"
            begun = [seq for seq, word, _ in said if word == "message_received"]
            for seq, data in released:
                assert not begun or begun[0] > seq, f"{message} has begun before it was released"
                if data["outcome"] == "complete" and data["actor"] is None:
                    assert all(self.had_ended(part, kind, seq) for part in parts), (
                        f"{message}, a {kind}, was released too early: {[(part, self.said[part]) for part in parts]}"
                    )

    def has_ended(self, message: str) -> bool:
        return any(word in ENDED for _, word, _ in self.said.get(message, ()))

    def had_ended(self, part: str, kind: str, seq: int) -> bool:
        """Whether the ledger had said, before that, that a part was answered; for a join, that it ended or was held."""
        before = {word for at, word, data in self.said[part] if at < seq}
        if kind == "chain":
            return "message_completed" in before and part not in self.refused
        broken = any(at < seq and word == "message_held" and data.get("detail") for at, word, data in self.said[part])
        return broken or bool(before & ENDED)

    # and in the end

    def teardown(self) -> None:
        try:
            self.everybody_works()
        finally:
            self.eyes.close()
            self.store.close()
            self.loop.close()
            self.folder.cleanup()

    def everybody_works(self) -> None:
        """All runs answer, all sendings arrive, time passes: every message ends, or is held for a reason."""
        for agent in AGENTS:
            self.do(self.store.resume(agent))
        for claimed in [claimed for claimed in self.runs if claimed.fence in self.live()]:
            self.do(self.store.run_released(claimed.session, claimed.fence, "the end"))
        for parcel in [parcel for parcel in self.parcels if parcel.fence in self.live()]:
            self._settle(parcel, Delivery(receipt="r"), ours=True)
        unfinished = (
            "select count(*) from messages where state <= 1 union all select count(*) from responses where state <= 1 "
            "union all select count(*) from joins where ended_at is null"
        )
        for _ in range(1_000):
            if self.rows(unfinished) == [(0,), (0,), (0,)]:
                break
            self.answer_and_deliver()
            if (timer := self.do(self.store.next_timer())) is not None:
                self.clock.advance(max(0, timer))
        assert self.rows(unfinished) == [(0,), (0,), (0,)], "something is stuck"
        self.listen()
        self.lanes()
        self.ledger_and_counters()
        self.only_pruning_removes()
        self.each_key_yields_one_chain()
        self.what_has_ended_stays_so()
        self.nothing_is_said_twice_and_nobody_is_left_untold()
        self.who_waits_is_neither_forgotten_nor_let_go_too_early()

    def answer_and_deliver(self) -> None:
        for claimed in self.do(self.store.claim(batch=3, most=3)):
            self.fence = max(self.fence, claimed.fence)
            page = self.page(claimed, [COMPLETE] * len(claimed.messages), EPOCHS[0])
            assert self.do(self.store.take(claimed.session, page, self.rules)) == claimed.fence
        for parcel in self.do(self.store.claim_parcels(["console"], most=10)):
            self.fence = max(self.fence, parcel.fence)
            self._settle(parcel, Delivery(receipt="r"), ours=True)


SMALL = settings(
    max_examples=250,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def test_office() -> None:
    run_state_machine_as_test(OfficeMachine, settings=SMALL)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_office_deep() -> None:
    run_state_machine_as_test(OfficeMachine, settings=settings(SMALL, max_examples=2_500, derandomize=False))
