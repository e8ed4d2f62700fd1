"""Queues: what each verb promises, for callers that wait and for coroutines alike."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, StoreError, UnknownJob, WrongState
from manydesks.queue import AsyncQueue, Message, Queue
from manydesks.queue import letters as module
from manydesks.store.database import open_reader
from manydesks.testing.clock import ManualClock

SECOND = 1_000
DAY = 86_400 * SECOND


class Hands:
    """A task that awaits for a test which does not: every verb is called in it, as one coroutine of a program would."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._calls: asyncio.Queue[Any] = asyncio.Queue()
        self._task = self._loop.create_task(self._work())

    async def _work(self) -> None:
        while (call := await self._calls.get()) is not None:
            verb, answer = call
            try:
                answer.set_result(await verb())
            except Exception as error:  # noqa: BLE001 - it is the test's
                answer.set_exception(error)

    def do(self, verb: Callable[[], Awaitable[Any]]) -> Any:
        answer = self._loop.create_future()
        self._calls.put_nowait((verb, answer))
        return self._loop.run_until_complete(answer)

    def close(self) -> None:
        self._calls.put_nowait(None)
        self._loop.run_until_complete(self._task)
        self._loop.close()


class Awaited:
    """The verbs of an `AsyncQueue`, awaited."""

    def __init__(self, hands: Hands, queue: AsyncQueue) -> None:
        self._hands = hands
        self._queue = queue

    def __getattr__(self, verb: str) -> Any:
        return lambda *arguments, **more: self._hands.do(lambda: getattr(self._queue, verb)(*arguments, **more))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        block = self._queue.transaction()
        tx = self._hands.do(block.__aenter__)
        try:
            yield tx
        except BaseException as error:
            raised = error
            assert not self._hands.do(lambda: block.__aexit__(type(raised), raised, None))
            raise
        self._hands.do(lambda: block.__aexit__(None, None, None))

    def close(self) -> None:
        self._queue.close()


class Desk:
    """Opens queues in one file, with one clock."""

    def __init__(self, kind: type[Queue] | type[AsyncQueue], path: Path) -> None:
        self.kind = kind
        self.hands = Hands()
        self.path = path
        self.clock = ManualClock()
        self.boot = "first"
        self.opened: list[Any] = []

    def open(self, name: str = "emails", **terms: Any) -> Any:
        given = {"durability": "crash", "clock": self.clock, "boot": self.boot} | terms
        queue = self.kind(self.path, name, **given)
        self.opened.append(queue)
        return Awaited(self.hands, queue) if isinstance(queue, AsyncQueue) else queue

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        db = open_reader(self.path)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        tables = [name for (name,) in self.rows("select name from sqlite_schema where type = 'table'")]
        return {table: self.rows(f"select * from {table}") for table in tables}

    def told(self, job: int | None = None) -> list[str]:
        """What the ledger says of a job."""
        return [kind for (kind,) in self.rows("select kind from events where job is ? order by seq", job)]

    def close(self) -> None:
        for queue in self.opened:
            queue.close()
        self.hands.close()

    def trouble(self) -> list[str]:
        """What of the promises that hold between any two transactions does not."""
        claimed = "exists (select 1 from claims c where c.lane = j.lane)"
        head = "(select min(position) from jobs h where h.lane = j.lane and h.state = 0)"
        first = f"(state = 2 or (state = 0 and (lane is null or (not {claimed} and position = {head}))))"
        checks = {
            "marked wrongly": f"select id, ready from jobs j where (ready <> 0) <> {first}",
            "a timer without a moment": "select id from jobs where ready = 2 and not_before is null",
            "claimed without a claim": "select id from jobs j where state = 1 and not exists "
            "(select 1 from claims c where c.fence = j.fence and c.lane is j.lane)",
            "a claim of nothing": "select fence from claims c where not exists "
            "(select 1 from jobs j where j.fence = c.fence and j.state = 1)",
            "miscounted": "select * from (select queue, state, count(*) n from jobs group by queue, state) r full join "
            "(select agent, state, n from counters) c on c.agent = r.queue and c.state = r.state "
            "where coalesce(c.n, 0) <> coalesce(r.n, 0)",
            "a gap": "select h.seq from ledger_head h, "
            "(select count(*) n, max(seq) last, min(seq) first from events) e "
            "where h.seq <> coalesce(e.last, 0) or (e.n > 0 and e.last - e.first + 1 <> e.n)",
        }
        return [f"{what}: {row}" for what, sql in checks.items() for row in self.rows(sql)]


@pytest.fixture(params=[Queue, AsyncQueue], ids=["sync", "async"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(request.param, tmp_path / "jobs.db")
    yield made
    made.close()
    assert made.trouble() == []


@pytest.fixture
def q(desk: Desk) -> Any:
    return desk.open(lease=30, max_attempts=5, backoff=5)


@pytest.fixture
def clock(desk: Desk) -> ManualClock:
    return desk.clock


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


def counts(q: Any) -> dict[str, int]:
    """Those that are not zero."""
    found = q.stats()
    assert list(found) == ["ready", "claimed", "delayed", "completed", "dead", "cancelled"]
    return {name: n for name, n in found.items() if n}


def buried(q: Any, body: Any = "bad", **how: Any) -> int:
    """A dead job."""
    id = q.send(body, **how)
    (message,) = [m for m in q.receive_batch(100) if m.id == id]
    assert q.fail(message, "no use", permanent=True)
    return int(id)


# send


def test_a_body_comes_back_as_it_was_sent(q: Any) -> None:
    sent = [{"to": "a@b", "n": [1, 2.5, None, True]}, "text", 0, None, [], "😀 ü", "\ud800 half", 10**30]
    for body in sent:
        q.send(body)
    assert bodies(q.receive_batch(10)) == sent


def test_a_message_says_what_it_is(q: Any) -> None:
    id = q.send("x", lane="a")
    message = q.receive()
    assert (message.id, message.body, message.attempt, message.lane) == (id, "x", 1, "a")
    assert message.fence > 0


def test_ids_are_never_given_twice(q: Any) -> None:
    first = q.send_batch(range(3))
    q.purge()
    second = q.send_batch(range(3))
    assert max(first) < min(second)
    assert first + second == sorted(first + second)


def test_a_known_live_key_returns_the_job_there_is(q: Any, clock: ManualClock) -> None:
    id = q.send("one", key="k")
    assert q.send("two", key="k") == id
    assert q.send("two", key="k", lane="elsewhere", delay=5, priority=9) == id
    message = q.receive()
    assert message.body == "one"
    assert q.send("three", key="k") == id  # claimed
    q.fail(message, "later", retry_in=60)
    assert q.send("four", key="k") == id  # backing off
    assert counts(q) == {"delayed": 1}
    assert q.receive() is None


@pytest.mark.parametrize("end", ["complete", "dead", "cancel", "purge"])
def test_a_key_is_free_again_when_its_job_has_ended(q: Any, end: str) -> None:
    id = q.send("one", key="k")
    if end == "purge":
        q.purge()
    elif end == "cancel":
        q.cancel(id)
    elif end == "dead":
        q.fail(q.receive(), "no", permanent=True)
    else:
        q.complete(q.receive())
    again = q.send("two", key="k")
    assert again != id
    assert q.receive().id == again


def test_a_delayed_job_has_its_key_too(q: Any, clock: ManualClock) -> None:
    id = q.send("one", key="k", delay=60)
    assert q.send("two", key="k") == id
    clock.advance(60 * SECOND)
    assert q.receive().body == "one"


def test_a_delay_is_waited_for_to_the_millisecond(q: Any, clock: ManualClock) -> None:
    q.send("later", delay=1.5)
    assert counts(q) == {"delayed": 1}
    clock.advance(1_499)
    assert q.receive() is None
    clock.advance(1)
    assert counts(q) == {"ready": 1}
    assert q.receive().body == "later"


def test_a_delay_takes_its_time_whatever_becomes_of_the_wall_clock(q: Any, clock: ManualClock) -> None:
    q.send("later", delay=3600)
    clock.jump(DAY)
    assert q.receive() is None
    clock.jump(-2 * DAY)
    clock.sleep(3600 * SECOND)
    assert q.receive().body == "later"


def test_what_was_delayed_enters_its_lane_when_it_is_due(q: Any, clock: ManualClock) -> None:
    q.send("late", lane="a", delay=10)
    q.send("later", lane="a", delay=20)
    q.send("now", lane="a")
    assert q.receive().body == "now"
    clock.advance(20 * SECOND)
    q.send("last", lane="a")
    assert q.receive() is None  # the lane is claimed
    clock.advance(10 * SECOND)  # and its lease is over: it has kept its place
    assert bodies(q.receive_batch(10)) == ["now", "last", "late", "later"]


def test_higher_priority_first_then_the_oldest(q: Any) -> None:
    for body, priority in [("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 0)]:
        q.send(body, priority=priority)
    assert bodies(q.receive_batch(10)) == ["b", "d", "a", "e", "c"]


def test_between_lanes_the_head_decides_and_inside_one_only_the_order(q: Any) -> None:
    q.send("a1", lane="a", priority=0)
    q.send("a2", lane="a", priority=9)
    q.send("b1", lane="b", priority=5)
    assert [q.receive().body for _ in range(2)] == ["b1", "a1"]
    assert q.receive() is None


def test_send_batch_is_all_in_order(desk: Desk, q: Any) -> None:
    ids = q.send_batch([1, 2, 3], lane="a", priority=2)
    assert ids == sorted(ids)
    assert bodies(q.receive_batch(10)) == [1, 2, 3]
    assert q.send_batch([]) == []
    with pytest.raises(BadInput):
        q.send_batch(["fine", object()])
    assert counts(q) == {"claimed": 3}
    q.send_batch([4, 5], delay=9)
    assert counts(q) == {"claimed": 3, "delayed": 2}


# receive


def test_receive_never_blocks(q: Any) -> None:
    assert q.receive() is None
    assert q.receive_batch(5) == []


def test_a_received_message_is_nobody_elses(desk: Desk, q: Any) -> None:
    q.send("x")
    other = desk.open()
    assert q.receive() is not None
    assert other.receive() is None
    assert counts(other) == {"claimed": 1}


def test_a_lane_is_worked_on_by_one_at_a_time_in_order(desk: Desk, q: Any) -> None:
    q.send_batch([1, 2, 3], lane="a")
    other = desk.open()
    for expected in (1, 2, 3):
        message = q.receive()
        assert message.body == expected
        assert other.receive() is None
        assert q.complete(message)
    assert q.receive() is None


def test_a_batch_takes_what_is_due_of_every_lane_in_order(q: Any) -> None:
    for body, lane in [("a1", "a"), ("n1", None), ("a2", "a"), ("b1", "b"), ("n2", None)]:
        q.send(body, lane=lane)
    received = q.receive_batch(10)
    assert sorted(bodies(received)) == ["a1", "a2", "b1", "n1", "n2"]
    assert [m.body for m in received if m.lane == "a"] == ["a1", "a2"]
    fences = {lane: {m.fence for m in received if m.lane == lane} for lane in ("a", "b")}
    assert len(fences["a"]) == len(fences["b"]) == 1
    assert fences["a"] != fences["b"]


def test_a_batch_has_a_limit(q: Any) -> None:
    q.send_batch(range(5), lane="a")
    q.send_batch(range(5, 10))
    assert bodies(q.receive_batch(3)) == [0, 1, 2]
    assert bodies(q.receive_batch(3)) == [5, 6, 7]
    assert counts(q) == {"claimed": 6, "ready": 4}
    assert bodies(q.receive_batch(10)) == [8, 9]  # the rest of the lane has to wait


# extend and the lease


def test_an_expired_lease_returns_the_message_at_once_and_counts_an_attempt(q: Any, clock: ManualClock) -> None:
    q.send("x")
    first = q.receive()
    clock.advance(30 * SECOND - 1)
    assert q.receive() is None
    clock.advance(1)
    assert counts(q) == {"ready": 1}
    second = q.receive()
    assert (second.id, second.attempt) == (first.id, 2)
    assert second.fence > first.fence


def test_nobody_who_sets_the_wall_clock_frees_or_freezes_a_lease(q: Any, clock: ManualClock) -> None:
    q.send("x")
    q.receive()
    clock.jump(DAY)
    assert q.receive() is None
    clock.jump(-2 * DAY)
    clock.advance(30 * SECOND)
    assert q.receive().attempt == 2


def test_a_lease_sleeps_with_the_machine(q: Any, clock: ManualClock) -> None:
    q.send("x")
    message = q.receive()
    clock.sleep(DAY)
    assert q.receive() is None
    assert q.complete(message)


def test_extend_counts_from_now(q: Any, clock: ManualClock) -> None:
    q.send("x")
    message = q.receive()
    assert q.extend(message, 60)
    clock.advance(59_999)
    assert q.receive() is None
    assert q.extend(message, 0.5)  # shorter, too
    clock.advance(500)
    assert not q.extend(message, 60)
    assert q.receive().attempt == 2


def test_extend_is_for_all_that_share_the_lease(q: Any, clock: ManualClock) -> None:
    q.send_batch([1, 2], lane="a")
    one, two = q.receive_batch(2)
    q.extend(two, 60)
    clock.advance(59 * SECOND)
    assert q.complete(one)
    assert q.complete(two)


def test_a_lease_that_ends_with_the_last_attempt_ends_the_job(desk: Desk, clock: ManualClock) -> None:
    q = desk.open(lease=10, max_attempts=3)
    id = q.send("x")
    for attempt in (1, 2, 3):
        assert q.receive().attempt == attempt
        clock.advance(10 * SECOND)
    assert q.receive() is None
    (dead,) = q.dead_letters()
    assert (dead.id, dead.attempts, dead.reason, dead.status) == (id, 3, "the lease ran out", "dead")
    assert desk.told(id) == ["sent", *["claimed", "retried"] * 2, "claimed", "died"]


def test_a_lease_counts_for_each_job_of_a_lanes_claim(q: Any, clock: ManualClock) -> None:
    q.send_batch([1, 2, 3], lane="a")
    one, *_ = q.receive_batch(3)
    q.complete(one)
    clock.advance(30 * SECOND)
    assert [(m.body, m.attempt) for m in q.receive_batch(3)] == [(2, 2), (3, 2)]


@pytest.mark.parametrize("jump", [-DAY, 0, DAY])
def test_after_a_reboot_leases_are_over_and_waits_go_on(desk: Desk, q: Any, clock: ManualClock, jump: int) -> None:
    q.send("claimed")
    q.send("waits", delay=100)
    stale = q.receive()
    clock.advance(20 * SECOND)
    assert q.extend(stale, 3600)
    q.cancel(q.send("so that something is told"))
    q.close()
    clock.reboot(away=10 * SECOND)
    clock.jump(jump)
    desk.boot = "second"
    again = desk.open()
    received = again.receive_batch(10)
    assert ("claimed", 2) in [(m.body, m.attempt) for m in received]
    assert not again.complete(stale)
    # a clock that comes up in the past goes on from the last event; one that comes up in the future is believed
    left = {-DAY: 80, 0: 70, DAY: 0}[jump] * SECOND
    if left:
        clock.advance(left - 1)
        assert again.show(2).status == "delayed"
        clock.advance(1)
    assert again.show(2).status == ("ready" if left else "claimed")


# complete, fail, release


def test_complete_ends_it(desk: Desk, q: Any) -> None:
    id = q.send("x")
    message = q.receive()
    assert q.complete(message) is True
    assert q.complete(message) is False
    assert counts(q) == {"completed": 1}
    assert desk.told(id) == ["sent", "claimed", "completed"]


def test_complete_batch_answers_for_each(q: Any, clock: ManualClock) -> None:
    q.send_batch([1, 2, 3])
    one, two, three = q.receive_batch(3)
    q.release(two)
    assert q.complete_batch([one, two, three]) == [True, False, True]
    assert counts(q) == {"completed": 2, "ready": 1}


@pytest.mark.parametrize("lane", [None, "a"])
@pytest.mark.parametrize("how", ["expired", "expired and taken", "completed", "failed", "released", "cancelled"])
def test_a_stale_message_changes_nothing(desk: Desk, q: Any, clock: ManualClock, how: str, lane: str | None) -> None:
    id = q.send("x", lane=lane)
    q.send("behind", lane=lane)
    stale = q.receive()
    if how.startswith("expired"):
        clock.advance(30 * SECOND)
        q.receive() if how == "expired and taken" else q.stats()
    else:
        {
            "completed": lambda: q.complete(stale),
            "failed": lambda: q.fail(stale, "no", retry_in=5),
            "released": lambda: q.release(stale),
            "cancelled": lambda: q.cancel(id),
        }[how]()
    before = desk.dump()
    assert q.complete(stale) is False
    assert q.fail(stale, "late") is False
    assert q.fail(stale, "late", permanent=True) is False
    assert q.release(stale) is False
    assert q.extend(stale, 60) is False
    assert desk.dump() == before


@pytest.mark.parametrize("verb", ["complete", "fail", "release", "extend"])
def test_a_lease_that_is_over_is_refused_even_if_nobody_else_has_looked(q: Any, clock: ManualClock, verb: str) -> None:
    q.send("x")
    message = q.receive()
    clock.advance(30 * SECOND)
    more = {"fail": ("late",), "extend": (60,)}.get(verb, ())
    assert getattr(q, verb)(message, *more) is False
    assert counts(q) == {"ready": 1}
    assert q.receive().attempt == 2


def test_fail_waits_as_long_as_it_is_told(q: Any, clock: ManualClock) -> None:
    q.send("x")
    assert q.fail(q.receive(), "why", retry_in=7)
    assert counts(q) == {"delayed": 1}
    clock.advance(6_999)
    assert q.receive() is None
    clock.advance(1)
    assert q.receive().attempt == 2


def test_fail_at_once(q: Any) -> None:
    q.send("x")
    assert q.fail(q.receive(), "why", retry_in=0)
    assert counts(q) == {"ready": 1}
    assert q.receive().attempt == 2


def test_fail_backs_off_and_doubles(q: Any, clock: ManualClock) -> None:
    q.send("x")
    for wait in (5, 10, 20, 40):
        assert q.fail(q.receive(), "why")
        clock.advance(wait * SECOND - 1)
        assert q.receive() is None
        clock.advance(wait * 100 + 1)  # up to a tenth of jitter
        assert counts(q) == {"ready": 1}
    assert q.fail(q.receive(), "the last")
    (dead,) = q.dead_letters()
    assert (dead.attempts, dead.reason) == (5, "the last")


def test_fail_permanently(desk: Desk, q: Any) -> None:
    id = q.send("x")
    assert q.fail(q.receive(), "never", permanent=True)
    (dead,) = q.dead_letters()
    assert (dead.id, dead.attempts, dead.reason) == (id, 1, "never")
    assert desk.rows("select data from events where kind = 'died'") == [('{"attempt": 1, "reason": "never"}',)]


def test_a_failed_job_holds_its_lane_and_frees_it_when_dead(q: Any, clock: ManualClock) -> None:
    q.send_batch([1, 2], lane="a")
    q.fail(q.receive(), "why", retry_in=10)
    assert q.receive() is None
    assert counts(q) == {"delayed": 1, "ready": 1}
    clock.advance(10 * SECOND)
    message = q.receive()
    assert message.body == 1
    q.fail(message, "why", permanent=True)
    assert q.receive().body == 2


def test_fail_in_a_lane_ends_the_claim_and_returns_the_later_ones_uncounted(
    desk: Desk, q: Any, clock: ManualClock
) -> None:
    q.send_batch([1, 2, 3], lane="a")
    one, two, three = q.receive_batch(3)
    q.complete(one)
    assert q.fail(two, "why", retry_in=10)
    assert q.complete(three) is False
    assert q.receive() is None
    assert desk.told(three.id) == ["sent", "claimed", "released"]
    clock.advance(10 * SECOND)
    assert [(m.body, m.attempt) for m in q.receive_batch(3)] == [(2, 2), (3, 1)]


def test_a_later_one_that_fails_lets_the_earlier_go_first(q: Any, clock: ManualClock) -> None:
    q.send_batch([1, 2, 3], lane="a")
    _, two, _ = q.receive_batch(3)
    q.fail(two, "why", retry_in=10)
    assert counts(q) == {"ready": 2, "delayed": 1}
    assert [job.status for job in q.list()] == ["ready", "delayed", "ready"]
    assert [job.id for job in q.list("delayed")] == [two.id]
    assert len(q.list("ready")) == 2
    assert [(m.body, m.attempt) for m in q.receive_batch(3)] == [(1, 1)]


def test_fail_of_one_without_a_lane_leaves_the_others(q: Any) -> None:
    q.send_batch([1, 2, 3])
    one, two, three = q.receive_batch(3)
    q.fail(two, "why", retry_in=10)
    assert q.complete_batch([one, two, three]) == [True, False, True]


def test_release_gives_back_uncounted_and_in_place(desk: Desk, q: Any) -> None:
    q.send_batch([1, 2, 3], lane="a")
    one, two = q.receive_batch(2)
    assert q.release(one)
    assert q.complete(two) is False  # the claim is over
    assert [(m.body, m.attempt) for m in q.receive_batch(5)] == [(1, 1), (2, 1), (3, 1)]
    assert "released" in desk.told(one.id)
    q.send("free")
    free = q.receive()
    assert q.release(free)
    assert q.receive().attempt == 1


def test_what_counts_is_in_the_file_not_in_the_callers_hands(q: Any) -> None:
    """A message that went through somebody's pickle or JSON may have lost something on the way."""
    q.send_batch([1, 2], lane="a")
    message = q.receive()
    assert q.fail(message._replace(attempt=4, lane=None), "why", retry_in=0)
    again = q.receive()
    assert (again.body, again.attempt) == (1, 2)
    assert q.release(again._replace(attempt=9, lane=None))
    assert q.receive().attempt == 2


@pytest.mark.parametrize("lane", [None, "a"])
def test_poison_runs_alone_from_the_third_attempt(q: Any, clock: ManualClock, lane: str | None) -> None:
    q.send_batch(["poison", "b", "c"], lane=lane)
    for _ in range(2):
        received = q.receive_batch(10)
        assert bodies(received)[0] == "poison"
        assert len(received) == 3
        q.fail(received[0], "why", retry_in=0)
        for message in received[1:]:
            q.release(message)
    (alone,) = q.receive_batch(10)
    assert (alone.body, alone.attempt) == ("poison", 3)


@pytest.mark.parametrize("lane", [None, "a"])
def test_poison_does_not_join_those_before_it(q: Any, lane: str | None) -> None:
    q.send_batch(["before", "poison"], lane=lane)
    for _ in range(2):
        before, poison = q.receive_batch(5)
        q.fail(poison, "why", retry_in=0)
        q.release(before)
    assert bodies(q.receive_batch(5)) == ["before"]


def test_poison_that_kills_its_worker_dies_alone(desk: Desk, clock: ManualClock) -> None:
    """Neighbours lose the attempts they shared, never their last one."""
    q = desk.open(lease=10, max_attempts=3)
    q.send_batch(["poison", "b", "c"], lane="a")
    for _ in range(20):
        received = q.receive_batch(10)
        if "poison" in bodies(received):
            clock.advance(10 * SECOND)
        elif received:
            assert all(q.complete_batch(received))
    assert counts(q) == {"dead": 1, "completed": 2}
    assert [job.body for job in q.dead_letters()] == ["poison"]


# what people do


def test_requeue_starts_at_attempt_1_with_a_fresh_position(desk: Desk, q: Any) -> None:
    id = buried(q, lane="a")
    q.send("behind", lane="a")
    q.requeue(id)
    assert q.dead_letters() == []
    assert [(m.body, m.attempt) for m in q.receive_batch(5)] == [("behind", 1), ("bad", 1)]
    assert desk.told(id) == ["sent", "claimed", "died", "requeued", "claimed"]
    job = q.show(id)
    assert (job.attempts, job.reason) == (0, None)


def test_requeue_only_what_is_dead(q: Any) -> None:
    id = q.send("x")
    with pytest.raises(WrongState, match="ready"):
        q.requeue(id)
    with pytest.raises(UnknownJob):
        q.requeue(id + 1)


def test_requeue_does_not_make_two_of_a_key(q: Any) -> None:
    id = buried(q, key="k")
    live = q.send("new", key="k")
    with pytest.raises(WrongState, match=str(live)):
        q.requeue(id)
    q.cancel(live)
    q.requeue(id)
    assert q.send("again", key="k") == id


def test_the_old_handle_stays_stale_after_a_requeue(q: Any) -> None:
    id = q.send("x")
    stale = q.receive()
    q.fail(stale, "no", permanent=True)
    q.requeue(id)
    assert q.complete(stale) is False
    q.receive()
    assert q.complete(stale) is False


def test_drop_leaves_the_dead(desk: Desk, q: Any) -> None:
    id = buried(q)
    q.drop(id)
    assert q.dead_letters() == []
    assert counts(q) == {"cancelled": 1}
    assert desk.told(id)[-1] == "cancelled"
    with pytest.raises(WrongState):
        q.drop(id)


def test_dead_letters_page_by_page(q: Any) -> None:
    ids = [buried(q) for _ in range(5)]
    assert [job.id for job in q.dead_letters(limit=2)] == ids[:2]
    assert [job.id for job in q.dead_letters(after=ids[1], limit=2)] == ids[2:4]
    assert [job.id for job in q.list("dead")] == ids


@pytest.mark.parametrize("where", ["ready", "delayed", "backing off", "claimed"])
@pytest.mark.parametrize("lane", [None, "a"])
def test_cancel(q: Any, clock: ManualClock, where: str, lane: str | None) -> None:
    id = q.send("x", lane=lane, delay=60 if where == "delayed" else 0)
    message = q.receive() if where in ("claimed", "backing off") else None
    if where == "backing off":
        q.fail(message, "why", retry_in=9)
    q.send("behind", lane=lane)
    assert q.cancel(id) is True
    assert q.cancel(id) is False
    if message:
        assert q.complete(message) is False
    clock.advance(DAY)
    assert bodies(q.receive_batch(5)) == ["behind"]
    assert counts(q) == {"claimed": 1, "cancelled": 1}


def test_cancel_of_one_leaves_the_others_of_its_claim(q: Any) -> None:
    q.send_batch([1, 2, 3], lane="a")
    one, two, three = q.receive_batch(3)
    q.cancel(two.id)
    assert q.complete_batch([one, two, three]) == [True, False, True]


def test_cancel_what_has_ended(q: Any) -> None:
    id = q.send("x")
    q.complete(q.receive())
    assert q.cancel(id) is False
    assert counts(q) == {"completed": 1}


def test_pause_is_for_everybody(desk: Desk, q: Any, clock: ManualClock) -> None:
    other, elsewhere = desk.open(), desk.open("elsewhere")
    q.send("claimed")
    message = q.receive()
    q.pause()
    q.pause()
    other.send("x")
    elsewhere.send("goes on")
    assert q.receive() is None
    assert other.receive_batch(5) == []
    assert elsewhere.receive().body == "goes on"
    assert q.complete(message)
    assert counts(q) == {"ready": 1, "completed": 1}
    later = desk.open()
    assert later.receive() is None
    later.resume()
    assert q.receive().body == "x"
    assert desk.told() == ["paused", "resumed"]


def test_pause_reaches_other_processes(desk: Desk, q: Any) -> None:
    script = """
import sys
from manydesks.queue import Queue
with Queue(sys.argv[1], "emails", durability="crash", boot="first") as q:
    for line in sys.stdin:
        print(getattr(q, line.strip())(), flush=True)
"""
    q.send("x")
    with subprocess.Popen(
        [sys.executable, "-c", script, str(desk.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def ask(verb: str) -> str:
            other.stdin.write(verb + "\n")
            other.stdin.flush()
            return str(other.stdout.readline()).strip()

        assert ask("pause") == "None"
        assert q.receive() is None
        q.resume()
        assert "body='x'" in ask("receive")
        q.pause()
        q.send("y")
        assert ask("receive") == "None"
        other.stdin.close()


def test_purge_deletes_what_is_not_claimed_and_only_that(desk: Desk, q: Any, clock: ManualClock) -> None:
    elsewhere = desk.open("elsewhere")
    elsewhere.send("stays", lane="a")
    buried(q)
    q.send("done")
    q.complete(q.receive())
    q.cancel(q.send("cancelled"))
    q.send_batch(["claimed", "waits behind it"], lane="a")
    q.send("delayed", delay=60)
    message = q.receive()
    assert message.body == "claimed"
    assert q.purge() == 5
    assert counts(q) == {"claimed": 1}
    assert counts(elsewhere) == {"ready": 1}
    assert q.complete(message)
    assert q.purge() == 1
    assert q.purge() == 0
    clock.advance(DAY)
    assert q.receive() is None
    assert desk.rows("select data from events where kind = 'purged' limit 1") == [('{"jobs": [2, 3, 4, 6, 7]}',)]


@pytest.mark.parametrize("inside", [False, True])
def test_purge_goes_on_across_its_step(desk: Desk, q: Any, monkeypatch: pytest.MonkeyPatch, inside: bool) -> None:
    monkeypatch.setattr(module, "STEP", 3)
    q.send_batch(range(10), lane="a")
    first, second = q.receive_batch(2)
    if inside:
        with q.transaction() as tx:
            assert q.purge(tx=tx) == 8
    else:
        assert q.purge() == 8
    assert counts(q) == {"claimed": 2}
    steps = desk.rows("select json_array_length(data, '$.jobs') from events where kind = 'purged'")
    assert steps == [(3,), (3,), (2,)]
    assert q.release(first)
    assert [m.body for m in q.receive_batch(5)] == [0, 1]
    assert not q.complete(second)


def test_whoever_was_purged_is_late_not_wrong(q: Any, clock: ManualClock) -> None:
    q.send("x")
    stale = q.receive()
    q.release(stale)
    q.purge()
    assert q.complete(stale) is False


def test_prune_deletes_what_ended_long_ago(
    desk: Desk, q: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP", 3)
    q.send_batch(range(4))
    q.complete_batch(q.receive_batch(4))
    q.cancel(q.send("cancelled"))
    dead = buried(q)
    clock.advance(100 * SECOND)
    q.send("new")
    new = q.receive()
    q.complete(new)
    assert q.prune(1000) == 0
    assert q.prune(50) == 5
    assert counts(q) == {"completed": 1, "dead": 1}
    assert [job.id for job in q.dead_letters()] == [dead]
    (first,) = desk.rows("select kind from events order by seq limit 1")
    assert first == ("sent",)
    assert desk.rows("select count(*) from events where kind = 'died'") == [(0,)]
    clock.advance(1)
    q.prune(0)
    assert counts(q) == {"dead": 1}
    (head,) = desk.rows("select seq from ledger_head")
    assert desk.rows("select max(seq) from events") == [head]  # the newest stays


def test_a_file_whose_ledger_was_pruned_keeps_its_time_after_a_reboot(desk: Desk, q: Any, clock: ManualClock) -> None:
    q.send("waits", delay=10)
    clock.advance(1)
    q.prune(0)
    q.close()
    clock.reboot()
    clock.jump(-DAY)
    desk.boot = "second"
    again = desk.open()
    clock.advance(10 * SECOND)
    assert again.receive().body == "waits"


def test_stats_are_right_at_every_moment(q: Any, clock: ManualClock) -> None:
    assert q.stats() == dict.fromkeys(("ready", "claimed", "delayed", "completed", "dead", "cancelled"), 0)
    q.send_batch([1, 2], lane="a")
    q.send(3, delay=10)
    assert counts(q) == {"ready": 2, "delayed": 1}
    one, _two = q.receive_batch(2)
    assert counts(q) == {"claimed": 2, "delayed": 1}
    q.fail(one, "why", retry_in=20)
    assert counts(q) == {"ready": 1, "delayed": 2}
    clock.advance(10 * SECOND)
    assert counts(q) == {"ready": 2, "delayed": 1}
    clock.advance(10 * SECOND)
    assert counts(q) == {"ready": 3}
    q.receive_batch(5)
    clock.advance(30 * SECOND)
    assert counts(q) == {"ready": 3}


def test_list_and_show(q: Any, clock: ManualClock) -> None:
    id = q.send({"a": 1}, key="k", lane="l", priority=3, delay=10)
    job = q.show(id)
    assert (job.status, job.body, job.key, job.lane, job.priority) == ("delayed", {"a": 1}, "k", "l", 3)
    assert job.not_before == job.sent_at + 10 * SECOND
    clock.advance(10 * SECOND)
    job = q.show(id)
    assert (job.status, job.not_before) == ("ready", None)
    assert q.list("delayed") == []
    assert [job.id for job in q.list("ready")] == [id]
    q.receive()
    assert [job.status for job in q.list()] == ["claimed"]


def test_several_queues_in_one_file_are_kept_apart(desk: Desk, q: Any, clock: ManualClock) -> None:
    other = desk.open("reports")
    one, two = q.send("one", lane="a", key="k"), other.send("two", lane="a", key="k")
    assert one != two
    mine, theirs = q.receive(), other.receive()
    assert (mine.body, theirs.body) == ("one", "two")
    assert q.receive() is None
    for verb in ("complete", "release"):
        with pytest.raises(UnknownJob):
            getattr(other, verb)(mine)
    with pytest.raises(UnknownJob):
        other.fail(mine, "why")
    for verb in ("cancel", "show", "requeue", "drop"):
        with pytest.raises(UnknownJob):
            getattr(other, verb)(one)
    assert q.complete(mine)
    assert counts(q) == {"completed": 1}
    assert counts(other) == {"claimed": 1}
    assert desk.rows("select distinct queue from events where job = ?", one) == [("emails",)]


# a caller's transaction


def test_every_verb_works_inside_a_transaction(desk: Desk, q: Any, clock: ManualClock) -> None:
    other = desk.open("other")
    with q.transaction() as tx:
        tx.execute("create table mine (x integer)")
        id = q.send("a", tx=tx)
        q.send_batch(["b", "c", "d", "e", "f"], tx=tx)
        other.send("elsewhere", key="k", tx=tx)
        message = q.receive(tx=tx)
        assert message.id == id
        assert q.extend(message, 60, tx=tx)
        assert q.complete(message, tx=tx)
        assert not q.complete(message, tx=tx)
        b, c, d, e, f = q.receive_batch(9, tx=tx)
        assert q.fail(b, "why", permanent=True, tx=tx)
        assert q.fail(c, "why", permanent=True, tx=tx)
        assert q.release(d, tx=tx)
        assert q.complete_batch([e, f], tx=tx) == [True, True]
        assert [job.id for job in q.dead_letters(tx=tx)] == [b.id, c.id]
        q.requeue(b.id, tx=tx)
        q.drop(c.id, tx=tx)
        assert q.cancel(d.id, tx=tx)
        assert [job.id for job in q.list("ready", tx=tx)] == [b.id]
        assert q.show(b.id, tx=tx).status == "ready"
        q.pause(tx=tx)
        assert q.receive(tx=tx) is None
        q.resume(tx=tx)
        expected = {"ready": 1, "claimed": 0, "delayed": 0, "completed": 3, "dead": 0, "cancelled": 2}
        assert q.stats(tx=tx) == expected
        clock.advance(1)
        assert q.prune(0, tx=tx) == 0  # its moment is when it began
        assert tx.execute("insert into mine values (?) returning x", (7,)) == [(7,)]
        assert desk.rows("select count(*) from jobs") == [(0,)]
    assert q.stats() == expected
    assert desk.rows("select x from mine") == [(7,)]
    with q.transaction() as tx:
        assert q.prune(0, tx=tx) == 5
        assert other.purge(tx=tx) == 1
    assert desk.told(b.id)[-1:] == ["requeued"] or desk.told(b.id) == []


def test_an_exception_takes_everything_back(desk: Desk, q: Any) -> None:
    q.send_batch([1, 2])
    before = desk.dump()
    with pytest.raises(ZeroDivisionError), q.transaction() as tx:  # noqa: PT012
        tx.execute("create table mine (x integer)")
        lost = q.send("x", key="k", lane="a", tx=tx)
        q.complete(q.receive(tx=tx), tx=tx)
        q.pause(tx=tx)
        raise ZeroDivisionError
    assert desk.dump() == before
    assert q.send("again") == lost  # not even an id is missing
    assert counts(q) == {"ready": 3}


def test_a_refusal_inside_does_not_end_the_transaction(q: Any) -> None:
    with q.transaction() as tx:
        q.send("one", tx=tx)
        with pytest.raises(UnknownJob):
            q.cancel(99, tx=tx)
        with pytest.raises(BadInput):
            q.send(object(), tx=tx)
        q.send("two", tx=tx)
    assert counts(q) == {"ready": 2}


def test_a_transaction_of_another_file_is_refused(desk: Desk, q: Any, tmp_path: Path) -> None:
    far = Desk(desk.kind, tmp_path / "far.db")
    other = far.open()
    try:
        with q.transaction() as tx, pytest.raises(BadInput, match="a queue in"):
            other.send("x", tx=tx)
        assert counts(other) == {}
    finally:
        far.close()


def test_verbs_without_tx_inside_a_transaction_are_refused_instead_of_waiting_for_ever(desk: Desk, q: Any) -> None:
    other = desk.open("other")
    with q.transaction() as tx:
        for verb in (q.stats, q.receive, other.stats, lambda: q.send("x")):
            with pytest.raises(BadInput, match="`tx`"):
                verb()
        with pytest.raises(BadInput, match="`tx`"), q.transaction():
            pass
        q.send("kept", tx=tx)
    assert counts(q) == {"ready": 1}


def test_closing_inside_a_transaction_is_refused(desk: Desk, q: Any) -> None:
    with q.transaction() as tx:
        with pytest.raises(BadInput):
            q.close()
        q.send("kept", tx=tx)
    assert counts(q) == {"ready": 1}


@pytest.mark.parametrize(
    "sql",
    [
        "commit", "COMMIT", " end", "rollback", "-- why\ncommit", "/* why */ commit", "select 1; commit", "; commit",
        "\ufeffcommit", "begin", "savepoint a", "release a", "pragma query_only = on",
        "select 1; pragma query_only = on", "attach 'x' as y", "vacuum",
    ],
)  # fmt: skip
def test_nobody_ends_a_transaction_but_its_block(q: Any, sql: str) -> None:
    with q.transaction() as tx:
        q.send("x", tx=tx)
        with pytest.raises(BadInput, match="with"):
            tx.execute(sql)
        q.send("y", tx=tx)
    assert counts(q) == {"ready": 2}


def test_a_transaction_that_is_over_is_refused(desk: Desk, q: Any) -> None:
    with q.transaction() as tx:
        tx.execute("create table mine (x integer)")
    with pytest.raises(BadInput):
        q.send("x", tx=tx)
    with pytest.raises(BadInput, match="over"):
        tx.execute("insert into mine values (1)")
    with q.transaction() as new:
        with pytest.raises(BadInput):
            q.send("x", tx=tx)
        with pytest.raises(BadInput, match="over"):
            tx.execute("insert into mine values (1)")
        q.send("x", tx=new)
    assert counts(q) == {"ready": 1}
    assert desk.rows("select * from mine") == []


def test_an_error_that_takes_the_transaction_back_cannot_be_overlooked(desk: Desk, q: Any) -> None:
    """`insert or rollback` ends it under us: what comes after must not be written by itself."""
    with pytest.raises(StoreError, match="nothing was changed"), q.transaction() as tx:  # noqa: PT012
        tx.execute("create table mine (x integer primary key)")
        q.send("lost", tx=tx)
        tx.execute("insert into mine values (1)")
        with contextlib.suppress(Exception):
            tx.execute("insert or rollback into mine values (1)")
        with pytest.raises(BadInput):
            q.send("by itself", tx=tx)
        with pytest.raises(BadInput):
            tx.execute("insert into mine values (2)")
    assert counts(q) == {}
    assert desk.rows("select name from sqlite_schema where name = 'mine'") == []


# closing, forking, threads


def test_closed_is_closed_even_while_others_have_the_file_open(desk: Desk, q: Any) -> None:
    other = desk.open()
    q.send("x")
    q.close()
    q.close()
    for verb in (lambda: q.send("y"), q.receive, q.stats, q.purge):
        with pytest.raises(StoreError, match="closed"):
            verb()
    with pytest.raises(StoreError, match="closed"), q.transaction():
        pass
    assert counts(other) == {"ready": 1}
    other.close()
    with pytest.raises(StoreError, match="closed"):
        other.stats()
    assert counts(desk.open()) == {"ready": 1}


def test_claims_outlive_a_close(desk: Desk, q: Any, clock: ManualClock) -> None:
    q.send("x")
    message = q.receive()
    q.close()
    again = desk.open()
    assert again.receive() is None
    assert again.complete(message)


FORK = """
import asyncio, os, sys
from manydesks.queue import AsyncQueue, Queue

path, kind = sys.argv[1], sys.argv[2]
if kind == "async":
    class Both(AsyncQueue):
        def __getattribute__(self, name):
            found = super().__getattribute__(name)
            if name in ("send", "stats"):
                return lambda *a, **k: asyncio.run(found(*a, **k))
            return found
else:
    Both = Queue
q = Both(path, durability="crash")
q.send("parent")
child = os.fork()
if child == 0:
    said = []
    try:
        q.send("child")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
    q.close()  # nothing of the parent's
    try:
        Both(path, durability="crash")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
    sys.stdout.write("\\n".join(said) + "\\n")
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
q.send("parent again")
print(q.stats()["ready"])
q.close()
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_forked_child_can_neither_use_nor_open_what_was_open(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, str(tmp_path / "jobs.db"), kind],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.count("StoreError") == 2
    assert "was opened before a fork" in done.stdout
    assert "was open when this process was forked off" in done.stdout
    assert done.stdout.endswith("2\n")


FORK_INSIDE = """
import os, sys
from manydesks.queue import Queue

q = Queue(sys.argv[1], durability="crash")
with q.transaction() as tx:
    q.send("parent", tx=tx)
    child = os.fork()
    if child == 0:
        try:
            q.send("child", tx=tx)
        except Exception as error:
            print(type(error).__name__, flush=True)
            raise SystemExit(0)
    assert os.waitpid(child, 0)[1] == 0
    q.send("parent again", tx=tx)
print(q.stats()["ready"], [row for row in q.file.writer._db.execute("pragma integrity_check")])
q.close()
"""


def test_a_fork_inside_a_transaction_leaves_it_to_the_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK_INSIDE, str(tmp_path / "jobs.db")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["BadInput", "2 [('ok',)]"], done.stderr


def test_several_threads_may_use_one_queue(tmp_path: Path) -> None:
    received: list[Message] = []
    errors: list[BaseException] = []
    with Queue(tmp_path / "jobs.db", durability="crash") as q:
        ready = threading.Barrier(6)

        def work(number: int) -> None:
            try:
                ready.wait(30)
                for n in range(20):
                    q.send([number, n], lane=str(number))
                    if n % 5 == 0:
                        with q.transaction() as tx:
                            q.send([number, f"tx {n}"], tx=tx)
                    for message in q.receive_batch(3):
                        assert q.complete(message)
                        received.append(message)
            except BaseException as error:  # noqa: BLE001 - shown by the test
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        while more := q.receive_batch(100):
            q.complete_batch(more)
            received += more
        assert len(received) == len({m.id for m in received}) == 6 * 24
        assert q.stats()["completed"] == 6 * 24


async def test_many_coroutines_may_have_transactions_at_once(tmp_path: Path) -> None:
    """More of them than a loop has threads: whoever has the file must still be able to commit."""
    async with AsyncQueue(tmp_path / "jobs.db", durability="crash") as q:

        async def one(n: int) -> None:
            async with q.transaction() as tx:
                await q.send(n, tx=tx)
                await asyncio.sleep(0)
                await q.send(n, tx=tx)

        async with asyncio.timeout(60):
            await asyncio.gather(*(one(n) for n in range(100)), *(q.send("plain") for _ in range(100)))
        received = await q.receive_batch(1000)
        pairs = [m.body for m in received if m.body != "plain"]
        assert pairs[::2] == pairs[1::2]
        assert len(received) == 300


async def test_a_waiting_queue_inside_a_coroutines_transaction_is_refused(tmp_path: Path) -> None:
    """Both share the file's one connection: the loop would wait for itself."""
    path = tmp_path / "jobs.db"
    async with AsyncQueue(path, durability="crash") as q:
        with Queue(path, durability="crash") as plain:
            async with q.transaction() as tx:
                with pytest.raises(BadInput, match="`tx`"):
                    plain.send("x")
                plain.send("y", tx=tx)
            with plain.transaction() as tx:
                with pytest.raises(BadInput, match="`tx`"):
                    await q.send("x")
                await q.send("z", tx=tx)
            assert plain.stats()["ready"] == 2


def test_two_queues_share_a_connection_only_in_one_process_and_path(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    os.symlink(path, tmp_path / "link.db")  # noqa: PTH211
    with Queue(path) as one, Queue(tmp_path / "link.db", "other") as two, Queue(tmp_path / "far.db") as three:
        assert one.file is two.file
        assert one.file is not three.file
        with one.transaction() as tx:
            two.send("x", tx=tx)
