"""Real queues in a real file, beside a model of them in plain Python: whatever is done, both must agree.

Several handles on one file, each with a connection of its own as other processes would have, with time moved by hand.
"""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from manydesks.domain.errors import UnknownJob, WrongState
from manydesks.queue import Message, Queue
from manydesks.store.database import open_reader
from manydesks.testing.clock import ManualClock

READY, CLAIMED, DELAYED, COMPLETED, CANCELLED, DEAD = range(6)
WORDS = ("ready", "claimed", "delayed", "completed", "cancelled", "dead")
DAY = 86_400_000

#: event → what the ledger said of the job before
BEFORE: dict[str, tuple[str | None, ...]] = {
    "sent": (None,), "claimed": ("waits",), "completed": ("claimed",), "retried": ("claimed",),
    "released": ("claimed",), "died": ("claimed",), "requeued": ("dead",), "cancelled": ("waits", "claimed", "dead"),
}  # fmt: skip
#: event → what it says of the job
AFTER = {"sent": "waits", "retried": "waits", "released": "waits", "requeued": "waits", "died": "dead"}


# the model


@dataclass
class Job:
    id: int
    queue: str
    lane: str | None
    key: str | None
    priority: int
    state: int
    position: int | None
    due: int | None
    sent: int
    retries: int = 0
    fence: int | None = None
    ended: int = 0


@dataclass
class Claim:
    lane: tuple[str, str] | None
    until: int


@dataclass
class Model:
    """What the verbs promise, without an index, a counter or a mark."""

    jobs: dict[int, Job] = field(default_factory=dict)
    claims: dict[int, Claim] = field(default_factory=dict)
    max_attempts: dict[str, int] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    position: int = 0
    fence: int = 0
    mono: int = 0
    steady: int = 0

    def lane_of(self, job: Job) -> tuple[str, str] | None:
        return None if job.lane is None else (job.queue, job.lane)

    def waiting(self, lane: tuple[str, str] | None) -> list[Job]:
        found = [job for job in self.jobs.values() if job.state == READY and self.lane_of(job) == lane]
        return sorted(found, key=lambda job: job.position or 0)

    def members(self, fence: int) -> list[Job]:
        found = [job for job in self.jobs.values() if job.state == CLAIMED and job.fence == fence]
        return sorted(found, key=lambda job: job.position or 0)

    def is_due(self, job: Job) -> bool:
        return job.due is None or job.due <= self.steady

    def heads(self, queue: str) -> list[Job]:
        """What may be claimed, best first."""
        busy = {claim.lane for claim in self.claims.values()}
        lanes = {self.lane_of(job) for job in self.jobs.values() if job.queue == queue and job.lane is not None} - busy
        found = [job for job in self.waiting(None) if job.queue == queue]
        found += [waiting[0] for lane in lanes if (waiting := self.waiting(lane))]
        return sorted((job for job in found if self.is_due(job)), key=lambda job: (-job.priority, job.position))

    def next_position(self) -> int:
        self.position += 1
        return self.position

    def sweep(self) -> None:
        due = [job for job in self.jobs.values() if job.state == DELAYED and self.is_due(job)]
        for job in sorted(due, key=lambda job: (job.due, job.id)):
            job.state, job.position, job.due = READY, self.next_position(), None
        for queue in self.max_attempts:
            # once its time has come it stays so, also if the next boot begins in the past
            for job in self.heads(queue):
                job.due = None
        self.sweep_leases()

    def sweep_leases(self) -> None:
        for fence in [fence for fence, claim in self.claims.items() if claim.until <= self.mono]:
            for job in self.members(fence):
                self.attempt_failed(job, job.retries + 1 >= self.max_attempts[job.queue], None)
            del self.claims[fence]

    def attempt_failed(self, job: Job, last: bool, due: int | None) -> None:
        job.retries += 1
        job.state, job.due = (DEAD, job.due) if last else (READY, due)

    def send(self, queue: str, n: int, delay: int, priority: int, key: str | None, lane: str | None) -> list[int]:
        if key is not None:
            for job in self.jobs.values():
                if (job.queue, job.key) == (queue, key) and job.state <= DELAYED:
                    return [job.id]
        ids = [self.next_position() for _ in range(n)]
        for id in ids:
            state, place, due = (DELAYED, None, self.steady + delay) if delay else (READY, id, None)
            self.jobs[id] = Job(id, queue, lane, key, priority, state, place, due, self.steady)
        return ids

    def receive(self, queue: str, lease: int, max_attempts: int, limit: int) -> list[tuple[int, int, int]]:
        self.sweep()
        alone = max(1, min(2, max_attempts - 1))
        got: list[tuple[int, int, int]] = []
        while queue not in self.paused and len(got) < limit and (heads := self.heads(queue)):
            best, room = heads[0], limit - len(got)
            poison = best.retries >= alone
            if got and poison:
                break
            row = heads if best.lane is None else self.waiting(self.lane_of(best))
            taken = [best]
            for job in row[1:room]:
                if poison or job.lane != best.lane or job.retries >= alone or not self.is_due(job):
                    break
                taken.append(job)
            self.fence += 1
            self.claims[self.fence] = Claim(self.lane_of(best), self.mono + lease)
            for job in taken:
                job.state, job.fence = CLAIMED, self.fence
                got.append((job.id, job.retries + 1, self.fence))
            if poison:
                break
        return got

    def ours(self, queue: str, message: Message) -> Job | None:
        self.sweep_leases()
        job = self.jobs.get(message.id)
        if job is not None and job.queue != queue:
            raise UnknownJob(job=job.id, queue=queue)
        return job if job is not None and job.state == CLAIMED and job.fence == message.fence else None

    def close(self, fence: int) -> None:
        claim = self.claims[fence]
        if claim.lane is not None:
            for job in self.members(fence):
                job.state, job.due = READY, None
        self.end_if_last(fence)

    def end_if_last(self, fence: int) -> None:
        if not self.members(fence):
            del self.claims[fence]

    def end(self, job: Job, state: int) -> None:
        before, job.state, job.ended = job.state, state, self.steady
        if before == CLAIMED:
            self.end_if_last(job.fence or 0)

    def find(self, queue: str, id: int) -> Job:
        self.sweep()
        job = self.jobs.get(id)
        if job is None or job.queue != queue:
            raise UnknownJob(job=id, queue=queue)
        return job

    def dead(self, queue: str, id: int) -> Job:
        job = self.find(queue, id)
        if job.state != DEAD:
            raise WrongState("not dead")
        return job

    def word(self, job: Job) -> str:
        return "delayed" if job.state == READY and not self.is_due(job) else WORDS[job.state]

    def stats(self, queue: str) -> dict[str, int]:
        self.sweep()
        words = [self.word(job) for job in self.jobs.values() if job.queue == queue]
        return {word: words.count(word) for word in ("ready", "claimed", "delayed", "completed", "dead", "cancelled")}


# the verbs: what the queue said, and what the model says it should have


@dataclass(frozen=True)
class Terms:
    queue: str
    lease: int
    max_attempts: int


TERMS = (Terms("a", 10, 2), Terms("a", 30, 4), Terms("b", 5, 3))

PICK = st.integers(0, 10_000)
RARELY = st.sampled_from([False, False, False, True])
WHO = st.integers(0, len(TERMS) - 1)


def verb(name: str, weight: int, /, **arguments: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    # each a strategy of its own: `one_of` counts the same one once
    return [st.tuples(st.just(name), st.fixed_dictionaries({"who": WHO, **arguments})) for _ in range(weight)]


LANES = st.sampled_from([None, "x", "x", "y"])
VERBS = st.one_of(
    verb(
        "send", 5,
        delay=st.sampled_from([0, 0, 0, 3, 20]),
        priority=st.sampled_from([0, 0, 5, -5]),
        key=st.sampled_from([None, None, "k", "l"]),
        lane=LANES,
    )
    + verb("send_batch", 2, n=st.integers(0, 4), delay=st.sampled_from([0, 0, 3]), lane=LANES)
    + verb("receive", 7, limit=st.sampled_from([1, 1, 2, 3, 10]))
    + verb("complete", 6, pick=PICK, stale=RARELY)
    + verb("complete_batch", 1, pick=PICK)
    + verb("fail", 6, pick=PICK, stale=RARELY, retry_in=st.sampled_from([0, 0, 2, 15]), permanent=RARELY)
    + verb("release", 2, pick=PICK, stale=RARELY)
    + verb("extend", 2, pick=PICK, stale=RARELY, seconds=st.sampled_from([1, 60]))
    + verb("cancel", 1, pick=PICK)
    + verb("requeue", 2, pick=PICK)
    + verb("drop", 1, pick=PICK)
    + verb("pause", 1, paused=st.sampled_from([False, False, True]))
    + verb("purge", 1)
    + verb("prune", 1, seconds=st.sampled_from([0, 5, 100]))
    + verb("look", 2)
)  # fmt: skip

STEPS = st.one_of(
    *[st.tuples(st.just("verb"), VERBS) for _ in range(14)],
    *[st.tuples(st.just("time_passes"), st.sampled_from([1, 1_000, 4_999, 5_000, 30_000])) for _ in range(3)],
    st.tuples(st.just("the_clock_is_set"), st.sampled_from([-DAY, DAY])),
    st.tuples(st.just("the_machine_sleeps"), st.sampled_from([10_000])),
    st.tuples(st.just("reboot"), st.tuples(st.sampled_from([0, 60_000]), st.sampled_from([-DAY, 0, 0, DAY]))),
    st.tuples(st.just("reopen"), WHO),
    *[st.tuples(st.just("transaction"), st.tuples(st.lists(VERBS, max_size=5), st.booleans(), WHO)) for _ in range(3)],
)


class OwnClock:
    """The same clock for somebody else: queues share a connection only if they share a clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.now, self.monotonic, self.since_boot = clock.now, clock.monotonic, clock.since_boot


class Undo(Exception):
    pass


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="md-queues-")
        self.path = Path(self.folder.name) / "jobs.db"
        self.clock = ManualClock()
        self.boots = 0
        self.model = Model()
        #: steady time minus the time since the boot
        self.offset = self.clock.now() - self.clock.since_boot()
        self.clocks = [OwnClock(self.clock), OwnClock(self.clock)]
        self.queues: list[Queue] = []
        for who in range(len(TERMS)):
            self.queues.append(self.open(who))
        self.eyes = open_reader(self.path)
        #: everything that was ever handed out, live or stale
        self.received: list[Message] = []
        #: what the ledger has said so far
        self.seq = 0
        self.told_at = 0
        self.replayed: dict[int, str] = {}

    def open(self, who: int) -> Queue:
        terms = TERMS[who]
        self.model.max_attempts[terms.queue] = terms.max_attempts
        # the first and the last share a connection
        return Queue(
            self.path, terms.queue, lease=terms.lease, max_attempts=terms.max_attempts, durability="crash",
            clock=self.clocks[who % 2], boot=f"boot {self.boots}",
        )  # fmt: skip

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.eyes.execute(sql).fetchall()

    # what can happen

    @rule(step=STEPS)
    def happens(self, step: tuple[str, Any]) -> None:
        name, arguments = step
        self.set_time()
        getattr(self, name)(arguments)
        self.listen()
        self.check()

    def set_time(self) -> None:
        self.model.mono = self.clock.monotonic()
        self.model.steady = self.offset + self.clock.since_boot()

    def time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)

    def the_clock_is_set(self, milliseconds: int) -> None:
        self.clock.jump(milliseconds)

    def the_machine_sleeps(self, milliseconds: int) -> None:
        self.clock.sleep(milliseconds)

    def reboot(self, how: tuple[int, int]) -> None:
        away, jump = how
        for queue in self.queues:
            queue.close()
        self.clock.reboot(away=away)
        self.clock.jump(jump)
        self.boots += 1
        # no earlier than the last event, or than the boot before began: what was waited for until then stays so
        self.offset = max(self.clock.now(), self.told_at, self.offset) - self.clock.since_boot()
        self.queues = [self.open(who) for who in range(len(TERMS))]
        for claim in self.model.claims.values():
            claim.until = 0

    def reopen(self, who: int) -> None:
        self.queues[who].close()
        self.queues[who] = self.open(who)

    def transaction(self, what: tuple[list[Any], bool, int]) -> None:
        verbs, undo, who = what
        shared = [n for n in range(len(TERMS)) if n % 2 == who % 2]
        before, model, received = self.dump(), copy.deepcopy(self.model), len(self.received)
        try:
            with self.queues[who].transaction() as tx:
                for step in verbs:
                    name, arguments = step
                    # only those of this connection can be in it
                    self.verb((name, {**arguments, "who": shared[arguments["who"] % len(shared)]}), tx=tx)
                if undo:
                    raise Undo
        except Undo:
            assert self.dump() == before, "a transaction was not taken back as a whole"
            self.model = model
            del self.received[received:]

    def verb(self, step: tuple[str, Any], tx: Any = None) -> None:
        name, arguments = step
        terms, queue = TERMS[arguments["who"]], self.queues[arguments["who"]]
        more = {key: value for key, value in arguments.items() if key != "who"}
        getattr(self, "do_" + name)(queue, terms, {"tx": tx} if tx is not None else {}, **more)

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        tables = ("jobs", "claims", "events", "counters", "marks", "queues", "ledger_head")
        return {table: self.rows(f"select * from {table}") for table in tables}

    # the verbs

    def do_send(
        self, q: Queue, terms: Terms, tx: Any, delay: int, priority: int, key: str | None, lane: str | None
    ) -> None:
        id = q.send({"n": self.model.position}, delay=delay, priority=priority, key=key, lane=lane, **tx)
        assert [id] == self.model.send(terms.queue, 1, delay * 1000, priority, key, lane)

    def do_send_batch(self, q: Queue, terms: Terms, tx: Any, n: int, delay: int, lane: str | None) -> None:
        ids = q.send_batch(range(n), delay=delay, lane=lane, **tx)
        assert ids == self.model.send(terms.queue, n, delay * 1000, 0, None, lane)

    def do_receive(self, q: Queue, terms: Terms, tx: Any, limit: int) -> None:
        one = q.receive(**tx) if limit == 1 else None
        got = q.receive_batch(limit, **tx) if limit > 1 else [one] if one else []
        expected = self.model.receive(terms.queue, terms.lease * 1000, terms.max_attempts, limit)
        assert [(message.id, message.attempt, message.fence) for message in got] == expected
        assert [message.lane for message in got] == [self.model.jobs[message.id].lane for message in got]
        self.received += got

    def choose(self, terms: Terms, pick: int, stale: bool) -> Message | None:
        """A message that is claimed and belongs here, or any that ever was handed out."""
        jobs = self.model.jobs
        live = [
            message
            for message in self.received
            if (job := jobs.get(message.id))
            and (job.state, job.fence, job.queue) == (CLAIMED, message.fence, terms.queue)
        ]
        among = self.received[-8:] if stale or not live else live
        return among[pick % len(among)] if among else None

    def settle(self, terms: Terms, message: Message, tx: Any, act: Any, expected: Any) -> None:
        """`act` on the queue, `expected` on the model; a stale message must change nothing."""
        before = copy.deepcopy(self.model)
        try:
            job = self.model.ours(terms.queue, message)
        except UnknownJob:
            self.refused(before, tx, act, UnknownJob)
            return
        assert act() is (job is not None)
        if job is not None:
            expected(job)

    def do_complete(self, q: Queue, terms: Terms, tx: Any, pick: int, stale: bool) -> None:
        if message := self.choose(terms, pick, stale):
            self.settle(
                terms, message, tx, lambda: q.complete(message, **tx), lambda job: self.model.end(job, COMPLETED)
            )

    def do_complete_batch(self, q: Queue, terms: Terms, tx: Any, pick: int) -> None:
        given = [
            m
            for m in self.received[-(pick % 5) - 1 :]
            if m.id not in self.model.jobs or self.model.jobs[m.id].queue == terms.queue
        ]
        expected = []
        for message in given:
            job = self.model.ours(terms.queue, message)
            expected.append(job is not None)
            if job is not None:
                self.model.end(job, COMPLETED)
        if given:
            assert q.complete_batch(given, **tx) == expected

    def do_fail(self, q: Queue, terms: Terms, tx: Any, pick: int, stale: bool, retry_in: int, permanent: bool) -> None:
        message = self.choose(terms, pick, stale)
        if message is None:
            return

        def failed(job: Job) -> None:
            last = permanent or job.retries + 1 >= terms.max_attempts
            self.model.attempt_failed(job, last, self.model.steady + retry_in * 1000 if retry_in else None)
            self.model.close(message.fence)

        self.settle(
            terms, message, tx, lambda: q.fail(message, "why", retry_in=retry_in, permanent=permanent, **tx), failed
        )

    def do_release(self, q: Queue, terms: Terms, tx: Any, pick: int, stale: bool) -> None:
        message = self.choose(terms, pick, stale)
        if message is None:
            return

        def released(job: Job) -> None:
            job.state, job.due = READY, None
            self.model.close(message.fence)

        self.settle(terms, message, tx, lambda: q.release(message, **tx), released)

    def do_extend(self, q: Queue, terms: Terms, tx: Any, pick: int, stale: bool, seconds: int) -> None:
        message = self.choose(terms, pick, stale)
        if message is None:
            return

        def extended(job: Job) -> None:
            self.model.claims[message.fence].until = self.model.mono + seconds * 1000

        self.settle(terms, message, tx, lambda: q.extend(message, seconds, **tx), extended)

    def any_job(self, pick: int, *states: int) -> int:
        among = [job.id for job in self.model.jobs.values() if job.state in states] if pick % 4 else []
        return among[pick % len(among)] if among else pick % (self.model.position + 2) + 1

    def refused(self, before: Model, tx: Any, act: Any, refusal: type[Exception]) -> None:
        with pytest.raises(refusal):
            act()
        if not tx:
            # the leases and timers that were looked at on the way will be looked at again
            self.model = before

    def by_hand(self, tx: Any, act: Any, expected: Any) -> None:
        """Both refuse, for the same reason, or both say the same."""
        before = copy.deepcopy(self.model)
        try:
            answer = expected()
        except (UnknownJob, WrongState) as refusal:
            self.refused(before, tx, act, type(refusal))
        else:
            assert act() is answer

    def do_cancel(self, q: Queue, terms: Terms, tx: Any, pick: int) -> None:
        id = self.any_job(pick, READY, CLAIMED, DELAYED)

        def cancelled() -> bool:
            job = self.model.find(terms.queue, id)
            live = job.state <= DELAYED
            if live:
                self.model.end(job, CANCELLED)
            return live

        self.by_hand(tx, lambda: q.cancel(id, **tx), cancelled)

    def do_requeue(self, q: Queue, terms: Terms, tx: Any, pick: int) -> None:
        id = self.any_job(pick, DEAD)

        def requeued() -> None:
            job = self.model.dead(terms.queue, id)
            others = [other for other in self.model.jobs.values() if other.state <= DELAYED]
            if job.key is not None and (job.queue, job.key) in [(other.queue, other.key) for other in others]:
                raise WrongState("its key is in use")
            job.state, job.retries, job.due, job.position = READY, 0, None, self.model.next_position()

        self.by_hand(tx, lambda: q.requeue(id, **tx), requeued)

    def do_drop(self, q: Queue, terms: Terms, tx: Any, pick: int) -> None:
        id = self.any_job(pick, DEAD)
        self.by_hand(tx, lambda: q.drop(id, **tx), lambda: self.model.end(self.model.dead(terms.queue, id), CANCELLED))

    def do_pause(self, q: Queue, terms: Terms, tx: Any, paused: bool) -> None:
        (q.pause if paused else q.resume)(**tx)
        (self.model.paused.add if paused else self.model.paused.discard)(terms.queue)

    def do_purge(self, q: Queue, terms: Terms, tx: Any) -> None:
        self.model.sweep()
        gone = [job.id for job in self.model.jobs.values() if job.queue == terms.queue and job.state != CLAIMED]
        assert q.purge(**tx) == len(gone)
        for id in gone:
            del self.model.jobs[id]

    def do_prune(self, q: Queue, terms: Terms, tx: Any, seconds: int) -> None:
        limit = self.model.steady - seconds * 1000
        ended = [
            job for job in self.model.jobs.values() if job.queue == terms.queue and job.state in (COMPLETED, CANCELLED)
        ]
        gone = [job.id for job in ended if job.ended < limit]
        self.listen()  # before it may be gone
        assert q.prune(seconds, **tx) == len(gone)
        for id in gone:
            del self.model.jobs[id]

    def do_look(self, q: Queue, terms: Terms, tx: Any) -> None:
        assert q.stats(**tx) == self.model.stats(terms.queue)
        mine = sorted((job for job in self.model.jobs.values() if job.queue == terms.queue), key=lambda job: job.id)
        assert [(job.id, job.status) for job in q.list(limit=1000, **tx)] == [
            (job.id, self.model.word(job)) for job in mine
        ]
        assert [job.id for job in q.dead_letters(**tx)] == [job.id for job in mine if job.state == DEAD]
        for word in ("ready", "delayed"):
            assert [job.id for job in q.list(word, **tx)] == [job.id for job in mine if self.model.word(job) == word]

    # what must hold after every step

    def listen(self) -> None:
        """Follow the ledger: no gap, no time that goes back, and what it tells is how the rows are."""
        for seq, at, kind, job, data in self.rows(
            f"select seq, at, kind, job, data from events where seq > {self.seq}"
        ):
            assert seq == self.seq + 1, "a gap in the ledger"
            assert at >= self.told_at, "the ledger's time went back"
            self.seq, self.told_at = seq, at
            if kind in ("purged", "pruned"):
                for id in json.loads(data)["jobs"]:
                    del self.replayed[id]
            elif job is not None:
                before = self.replayed.get(job)
                assert before in BEFORE[kind], f"{kind} after {before}"
                self.replayed[job] = AFTER.get(kind, kind)

    def check(self) -> None:
        m = self.model
        lane = {job.id: None if job.lane is None else f"{job.queue}/{job.lane}" for job in m.jobs.values()}
        rows = self.rows("select id, queue, lane, priority, state, position, retry_count, fence from jobs order by id")
        expected = [
            (job.id, job.queue, lane[job.id], job.priority, job.state, job.position, job.retries, job.fence)
            for job in sorted(m.jobs.values(), key=lambda job: job.id)
        ]
        assert rows == expected
        claims = self.rows("select fence, lane, until from claims order by fence")
        assert claims == [
            (fence, None if claim.lane is None else "/".join(claim.lane), claim.until)
            for fence, claim in sorted(m.claims.items())
        ]
        lanes = [lane for _, lane, _ in claims if lane is not None]
        assert len(lanes) == len(set(lanes)), "two live claims in a lane"
        assert {row[7] for row in rows if row[4] == CLAIMED} == {fence for fence, *_ in claims}

        # exactly the head of each unclaimed lane is marked, and whatever waits outside of lanes
        free = {m.lane_of(job) for job in m.jobs.values()} - {claim.lane for claim in m.claims.values()} - {None}
        heads = {waiting[0].id for lane in free if (waiting := m.waiting(lane))}
        heads |= {
            job.id for job in m.jobs.values() if job.state == DELAYED or (job.state == READY and job.lane is None)
        }
        marked = self.rows("select id, ready, not_before from jobs where ready <> 0")
        assert {id for id, *_ in marked} == heads
        for id, ready, not_before in marked:
            assert ready == 1 or not_before is not None, "a timer without a moment"
            assert ready == 2 or not_before is None or not_before <= m.steady, f"{id} may be claimed too early"

        counted = {(queue, state): n for queue, state, n in self.rows("select agent, state, n from counters") if n}
        assert counted == {
            (queue, state): n for queue, state, n in self.rows("select queue, state, count(*) from jobs group by 1, 2")
        }
        words = {READY: "waits", DELAYED: "waits"} | {
            state: WORDS[state] for state in (CLAIMED, COMPLETED, CANCELLED, DEAD)
        }
        assert self.replayed == {job.id: words[job.state] for job in m.jobs.values()}
        assert self.rows("select seq from ledger_head") == [(self.seq,)]
        newest = self.rows("select max(seq) from events")
        assert newest == [(self.seq or None,)]

    def teardown(self) -> None:
        try:
            self.set_time()
            for _ in range(3 * len(self.model.jobs) + 5):
                self.clock.advance(60_000)
                self.set_time()
                for who, queue in enumerate(self.queues):
                    self.do_pause(queue, TERMS[who], {}, False)
                    self.do_receive(queue, TERMS[who], {}, 10)
                    for message in list(self.received[-10:]):
                        if message.id in self.model.jobs and self.model.jobs[message.id].queue == queue.name:
                            queue.complete(message)
                            if job := self.model.ours(queue.name, message):
                                self.model.end(job, COMPLETED)
                if all(job.state > DELAYED for job in self.model.jobs.values()):
                    break
            self.listen()
            self.check()
            left = [job for job in self.model.jobs.values() if job.state <= DELAYED]
            assert left == [], "something neither ends nor can be received"
            assert self.rows("pragma integrity_check") == [("ok",)]
        finally:
            for queue in self.queues:
                queue.close()
            self.eyes.close()
            self.folder.cleanup()


SMALL = settings(
    max_examples=300,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def test_queue() -> None:
    run_state_machine_as_test(QueueMachine, settings=SMALL)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_queue_deep() -> None:
    run_state_machine_as_test(QueueMachine, settings=settings(SMALL, max_examples=2_500, derandomize=False))
