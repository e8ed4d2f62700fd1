"""Lanes and claims: on a table made for the test, and through the store's verbs on messages."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from manydesks.store.lanes import Claim, Lanes, extend_all, live_fence
from manydesks.store.writer import Writer

JOBS = Lanes("jobs", columns=("address",), scope="jobs")

TABLE = """
create table jobs (
  id integer primary key, queue text not null, lane text, position integer, ready integer not null default 0,
  trigger integer not null default 1, priority integer not null default 0, state integer not null, not_before integer,
  retry_count integer not null default 0, fence integer, updated_at integer, address text
) strict;
create index jobs_ready on jobs (queue, priority desc, position) where ready = 1;
create index jobs_timer on jobs (not_before) where ready = 2;
create index jobs_lane  on jobs (lane, position) where state <= 1;
create index jobs_claim on jobs (fence) where state = 1;
"""


class Bench:
    """The verbs on `jobs`, each in a transaction of its own; after each the marks are checked."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.do(lambda tx: tx.run(TABLE))

    def do(self, operation: Any) -> Any:
        return self.writer.run(operation)

    def add(
        self, lane: str | None = "l", *, queue: str = "q", address: str = "a", priority: int = 0, **more: Any
    ) -> int:
        def insert(tx: Any) -> int:
            place = JOBS.entry(tx, lane, trigger=more.get("trigger", 1))
            row = {"queue": queue, "lane": lane, "address": address, "priority": priority, **more, **place}
            tx.count("jobs", queue, None, 0)
            return int(tx.insert("jobs", row))

        return self.checked(insert)

    def claim(self, limit: int = 10, queue: str = "q", *, same: bool = True) -> Claim | None:
        together = (lambda first, other: first.values == other.values) if same else (lambda first, other: True)
        return self.checked(
            lambda tx: JOBS.claim(tx, queue, worker="w", lease_ms=60_000, limit=limit, together=together)
        )

    def claimed(self, *limit: int, queue: str = "q") -> tuple[int, list[int]]:
        claim = self.claim(*limit, queue=queue)
        assert claim is not None
        return claim.fence, [row.id for row in claim.rows]

    def finish(self, row: int, fence: int, state: int = 3) -> bool:
        return self.checked(lambda tx: JOBS.finish(tx, row, fence, state))

    def fail(self, row: int, fence: int, retries: int, at: int) -> bool:
        def back(tx: Any) -> bool:
            ours = JOBS.give_back(tx, row, fence, retry_count=retries, wait_ms=at - tx.now)
            if ours:
                JOBS.end(tx, fence)
            return ours

        return self.checked(back)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.do(lambda tx: tx.all(sql))

    def checked(self, operation: Any) -> Any:
        result = self.do(operation)
        for lane in [lane for (lane,) in self.rows("select distinct lane from jobs where lane is not null")]:
            marked = self.rows(f"select id from jobs where lane = '{lane}' and ready <> 0")
            heads = self.rows(
                f"select id from jobs where lane = '{lane}' and state = 0 and trigger = 1 order by position limit 1"
            )
            claimed = self.rows(f"select 1 from claims where lane = '{lane}'")
            assert marked == ([] if claimed else heads)
        assert self.rows("select id from jobs where ready <> 0 and state <> 0") == []
        counted = self.rows("select agent, state, n from counters where scope = 'jobs' and n <> 0 order by 1, 2")
        assert counted == self.rows("select queue, state, count(*) from jobs group by 1, 2 order by 1, 2")
        return result


@pytest.fixture
def bench(writer: Writer) -> Bench:
    return Bench(writer)


def test_a_claim_covers_consecutive_rows_of_one_lane_oldest_first(bench: Bench) -> None:
    first, second, third = bench.add(), bench.add(), bench.add()
    fence, rows = bench.claimed(2)
    assert rows == [first, second]
    assert bench.rows("select id, fence from jobs where state = 1") == [(first, fence), (second, fence)]
    assert bench.rows("select id, fence from jobs where state = 0") == [(third, None)]


def test_a_lane_has_at_most_one_live_claim(bench: Bench) -> None:
    first = bench.add()
    fence, _ = bench.claimed()
    bench.add()
    assert bench.claim() is None
    bench.finish(first, fence)
    again, _ = bench.claimed()
    assert again > fence


def test_the_table_itself_refuses_a_second_claim_of_a_lane(bench: Bench) -> None:
    bench.add()
    fence, _ = bench.claimed()
    with pytest.raises(apsw.ConstraintError):
        bench.do(lambda tx: tx.run("insert into claims values (?, 'l', 'w', 0, 'b', 1)", (fence + 1,)))


def test_fences_are_never_given_twice(bench: Bench) -> None:
    fences = []
    for _ in range(5):
        row = bench.add()
        fence, _ = bench.claimed()
        bench.finish(row, fence)
        fences.append(fence)
    assert fences == sorted(set(fences))
    assert bench.rows("select * from claims") == []


def test_rows_that_do_not_belong_together_are_claimed_apart(bench: Bench) -> None:
    rows = [bench.add(address=address) for address in "aaba"]
    taken = []
    while (claim := bench.claim()) is not None:
        taken.append([row.id for row in claim.rows])
        for row in claim.rows:
            bench.finish(row.id, claim.fence)
    # consecutive: the last `a` does not overtake the `b`
    assert taken == [rows[:2], rows[2:3], rows[3:]]


def test_from_the_third_attempt_a_lane_runs_one_row_at_a_time(bench: Bench, clock: Any) -> None:
    poison, other = bench.add(), bench.add()
    for attempt, expected in enumerate([[poison, other], [poison, other], [poison], [poison]]):
        fence, rows = bench.claimed()
        assert rows == expected, f"attempt {attempt + 1}"
        bench.fail(poison, fence, attempt + 1, clock.now())


def test_a_row_in_its_third_attempt_does_not_join_the_batch_of_another(bench: Bench) -> None:
    first, poison = bench.add(), bench.add(retry_count=2)
    assert bench.claimed()[1] == [first]
    assert poison


def test_a_retry_keeps_its_position_and_holds_the_lane(bench: Bench, clock: Any) -> None:
    first, second = bench.add(), bench.add()
    fence, _ = bench.claimed(1)
    bench.fail(first, fence, 1, clock.now() + 5_000)
    assert bench.claim() is None
    assert bench.rows("select id, ready from jobs order by position") == [(first, 2), (second, 0)]
    third = bench.add()
    assert bench.claim() is None

    assert bench.do(JOBS.next_timer) == 5_000
    clock.advance(4_999)
    assert bench.checked(JOBS.wake) == set()
    assert bench.claim() is None
    clock.advance(1)
    assert bench.checked(JOBS.wake) == {"q"}
    assert bench.claimed()[1] == [first, second, third]
    assert bench.do(JOBS.next_timer) is None


def test_a_batch_ends_before_a_row_whose_timer_runs(bench: Bench, clock: Any) -> None:
    first, second = bench.add(), bench.add()
    fence, _ = bench.claimed()
    bench.fail(second, fence, 1, clock.now() + 5_000)
    assert bench.claimed()[1] == [first]


def test_a_failed_row_in_the_middle_returns_the_others_uncounted(bench: Bench, clock: Any) -> None:
    first, second, third = bench.add(), bench.add(), bench.add()
    fence, _ = bench.claimed()
    bench.finish(first, fence)
    bench.fail(second, fence, 1, clock.now() + 1)
    assert bench.rows("select id, retry_count, state from jobs order by id") == [
        (first, 0, 3), (second, 1, 0), (third, 0, 0),
    ]  # fmt: skip
    assert bench.finish(third, fence) is False


@pytest.mark.parametrize("end", [4, 5])
def test_dead_and_cancelled_free_the_lane(bench: Bench, end: int) -> None:
    first, second = bench.add(), bench.add()
    fence, _ = bench.claimed(1)
    bench.finish(first, fence, end)
    assert bench.claimed()[1] == [second]


def test_a_removed_head_lets_the_next_one_move_up(bench: Bench, clock: Any) -> None:
    first, second = bench.add(), bench.add()
    fence, _ = bench.claimed(1)
    bench.fail(first, fence, 1, clock.now() + 60_000)
    bench.checked(lambda tx: JOBS.remove(tx, first, 4))
    assert bench.claimed()[1] == [second]


def test_a_row_removed_behind_a_claim_leaves_the_claim_alone(bench: Bench) -> None:
    first, second, _third = bench.add(), bench.add(), bench.add()
    fence, _ = bench.claimed(1)
    bench.checked(lambda tx: JOBS.remove(tx, second, 4))
    assert bench.claim() is None
    assert bench.do(lambda tx: live_fence(tx, "l")) == fence
    assert bench.finish(first, fence)


def test_a_requeued_row_goes_to_the_end(bench: Bench) -> None:
    first, second, third = bench.add(), bench.add(), bench.add()
    fence, _ = bench.claimed(1)
    bench.finish(first, fence, 5)
    bench.checked(lambda tx: JOBS.enter(tx, first))
    assert bench.claimed()[1] == [second, third, first]


def test_a_row_requeued_into_a_claimed_lane_waits(bench: Bench) -> None:
    first, second = bench.add(), bench.add()
    fence, _ = bench.claimed(1)
    bench.finish(first, fence, 5)
    fence, _ = bench.claimed()
    bench.checked(lambda tx: JOBS.enter(tx, first))
    assert bench.claim() is None
    bench.finish(second, fence)
    assert bench.claimed()[1] == [first]


def test_a_row_that_is_not_there_cannot_be_moved(bench: Bench) -> None:
    for verb in (lambda tx: JOBS.enter(tx, 99), lambda tx: JOBS.remove(tx, 99, 4)):
        with pytest.raises(LookupError):
            bench.do(verb)


def test_priority_decides_between_lanes_and_not_inside_one(bench: Bench) -> None:
    low, urgent_behind = bench.add("one"), bench.add("one", priority=9)
    high = bench.add("two", priority=5)
    assert bench.claimed()[1] == [high]
    assert bench.claimed()[1] == [low, urgent_behind]


def test_lanes_of_one_priority_are_claimed_by_age(bench: Bench) -> None:
    rows = [bench.add(lane) for lane in "zyx"]
    assert [bench.claimed()[1] for _ in rows] == [[row] for row in rows]


def test_queues_do_not_see_each_other(bench: Bench) -> None:
    mine, theirs = bench.add("one", queue="mine"), bench.add("two", queue="theirs")
    assert bench.do(JOBS.ready_queues) == ["mine", "theirs"]
    assert bench.claimed(queue="theirs")[1] == [theirs]
    assert bench.do(JOBS.ready_queues) == ["mine"]
    assert bench.claimed(queue="mine")[1] == [mine]
    assert bench.do(JOBS.ready_queues) == []


def test_a_stale_fence_changes_nothing(bench: Bench, clock: Any) -> None:
    row = bench.add()
    old, _ = bench.claimed()
    bench.fail(row, old, 1, clock.now())
    new, _ = bench.claimed()
    before = bench.rows("select * from jobs"), bench.rows("select * from claims")
    assert bench.finish(row, old) is False
    assert bench.fail(row, old, 7, clock.now()) is False
    bench.checked(lambda tx: JOBS.end(tx, old))
    assert (bench.rows("select * from jobs"), bench.rows("select * from claims")) == before
    assert bench.finish(row, new)


def test_rows_without_a_lane_share_a_claim_up_to_the_limit(bench: Bench) -> None:
    first, second, third = bench.add(None), bench.add(None), bench.add(None)
    fence, rows = bench.claimed(2)
    assert rows == [first, second]
    bench.finish(first, fence)
    assert bench.rows("select fence from claims") == [(fence,)]
    bench.finish(second, fence)
    assert bench.rows("select fence from claims") == []
    assert bench.claimed(2)[1] == [third]


def test_a_row_without_a_lane_that_failed_waits_alone(bench: Bench, clock: Any) -> None:
    first, second = bench.add(None), bench.add(None)
    fence, rows = bench.claimed(1)
    assert rows == [first]
    other, rows = bench.claimed(1)
    assert rows == [second]
    bench.fail(first, fence, 1, clock.now() + 5)
    assert bench.claim() is None
    bench.finish(second, other)
    clock.advance(5)
    bench.checked(JOBS.wake)
    assert bench.claimed()[1] == [first]


def test_a_row_without_a_lane_that_was_not_answered_can_be_claimed_again(bench: Bench) -> None:
    row = bench.add(None)
    fence, _ = bench.claimed()
    bench.checked(lambda tx: JOBS.end(tx, fence))
    assert bench.claimed()[1] == [row]


def test_context_alone_never_starts_a_claim(bench: Bench) -> None:
    context = bench.add(trigger=0)
    assert bench.claim() is None
    asking = bench.add()
    assert bench.claimed()[1] == [context, asking]


def test_context_left_over_by_a_claim_starts_none(bench: Bench) -> None:
    asking, _context = bench.add(), bench.add(trigger=0)
    fence, rows = bench.claimed(1)
    assert rows == [asking]
    bench.finish(asking, fence)
    assert bench.claim() is None


def test_a_claim_lasts_on_the_monotonic_clock(bench: Bench, clock: Any) -> None:
    bench.add()
    bench.claimed()
    until = clock.monotonic() + 60_000
    assert bench.rows("select worker, until, boot from claims") == [("w", until, "this boot")]
    clock.jump(-3_600_000)
    clock.advance(10_000)
    bench.do(lambda tx: extend_all(tx, "somebody else", 60_000))
    assert bench.rows("select until from claims") == [(until,)]
    bench.do(lambda tx: extend_all(tx, "w", 60_000))
    assert bench.rows("select until from claims") == [(until + 10_000,)]


def test_a_row_that_was_due_stays_claimable_when_the_clock_is_set_back(bench: Bench, clock: Any) -> None:
    row = bench.add()
    fence, _ = bench.claimed()
    bench.fail(row, fence, 1, clock.now() + 5)
    clock.advance(5)
    bench.checked(JOBS.wake)
    clock.jump(-60_000)
    assert bench.claimed()[1] == [row]


# through the store's verbs


async def test_a_batch_shares_one_reply_address(office: Any) -> None:
    ids = [await office.sent(platform_id=place) for place in ("x", "x", "y", "x")]
    batches = []
    while runs := await office.claim():
        (claimed,) = runs
        batches.append([work.message_id for work in claimed.messages])
        desk = office.desk(claimed)
        for message in batches[-1]:
            desk.ack(message)
        await desk.take()
    assert batches == [ids[:2], ids[2:3], ids[3:]]


@pytest.mark.parametrize("different", ["channel", "instance", "platform_id", "thread", "sender_id"])
async def test_every_part_of_the_reply_address_counts(office: Any, different: str) -> None:
    first = await office.sent()
    await office.sent(**{different: "another"})
    claimed, _ = await office.begin()
    assert [work.message_id for work in claimed.messages] == [first]


async def test_a_batch_is_capped(office: Any) -> None:
    ids = [await office.sent() for _ in range(5)]
    claimed, _ = await office.begin(batch=3)
    assert [work.message_id for work in claimed.messages] == ids[:3]


async def test_agents_run_side_by_side_and_each_one_run_at_a_time(office: Any) -> None:
    for agent in ("ada", "bob"):
        await office.sent(to=agent)
    runs = await office.claim()
    assert [claimed.agent for claimed in runs] == ["ada", "bob"]
    await office.sent(to="ada")
    assert await office.claim() == []


async def test_no_more_runs_begin_than_were_asked_for(office: Any) -> None:
    for agent in ("ada", "bob", "cyd"):
        await office.sent(to=agent)
    assert len(await office.claim(most=2)) == 2
    assert len(await office.claim(most=2)) == 1


async def test_the_oldest_head_goes_first_whatever_its_agent_is_called(office: Any) -> None:
    """With one desk and an agent `ada` that always has work, `cyd` must still have its turn."""
    await office.sent(to="cyd")
    await office.sent(to="ada")
    (claimed,) = await office.claim(most=1)
    assert claimed.agent == "cyd"


async def test_the_head_with_the_higher_priority_goes_first(office: Any) -> None:
    await office.sent(to="ada")
    await office.sent(to="bob", priority=5)
    (claimed,) = await office.claim(most=1)
    assert claimed.agent == "bob"


async def test_a_paused_agent_is_not_claimed_for(office: Any, clock: Any) -> None:
    await office.sent(to="ada")
    office.store.close()
    db = apsw.Connection(str(office.path))
    db.execute("update agents set paused = 1 where id = 'ada'")
    db.close()
    await office.reopen()
    assert await office.claim() == []
