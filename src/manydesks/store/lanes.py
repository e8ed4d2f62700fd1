"""Lanes and claims, written once: for messages, for responses, for any table with the lane columns.

A *claim* is a row: the right to work on some consecutive rows of one lane until a moment, under a fence that is never
given twice. At most one live claim exists per lane. Whoever works under a claim names its fence; a stale fence changes
nothing.

`ready` keeps the hot statement from looking at rows that cannot be claimed: of the pending rows of an unclaimed lane
only the first that may start a claim is marked (1: now, 2: when its timer is due), of a claimed lane none is.

Leases count on the boot's monotonic clock, waits (`not_before`) on the file's steady one: nobody who sets the wall
clock frees or freezes anything.

A table takes part if it has: id, queue, lane, position, ready, trigger, priority, state (0 pending, 1 claimed),
not_before, retry_count, fence, updated_at; and the indexes `<table>_ready`, `<table>_timer`, `<table>_lane` and
`<table>_claim`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from manydesks.store.transaction import Transaction

PENDING, CLAIMED = 0, 1

#: how many timers or leases one transaction looks after: a flood of them must not hold it up
SWEEP = 500

NEW_CLAIM = "insert into claims (fence, lane, worker, until, boot, size) values (?, ?, ?, ?, ?, ?)"
END_CLAIM = "delete from claims where fence = ? returning lane"
LIVE_FENCE = "select fence from claims where lane = ?"
EXPIRED = "select fence from claims where until <= ? order by until limit ?"
EXTEND = "update claims set until = ? where fence = ? returning fence"
EXTEND_WORKER = "update claims set until = ?1 where worker = ?2 and boot = ?3 and until > ?4"


class Row(NamedTuple):
    """One claimed row. (Tuples: these are made for every row that is claimed.)"""

    id: int
    position: int
    retry_count: int
    #: the columns the table asked for, in its order
    values: tuple[Any, ...]


class Best(NamedTuple):
    """A row that may be claimed, the first of its queue."""

    lane: str | None
    row: Row


class Claim(NamedTuple):
    fence: int
    lane: str | None
    rows: tuple[Row, ...]


def _row(found: Sequence[Any]) -> Row:
    return Row(found[0], found[1], found[2], tuple(found[3:]))


def _always(first: Row, other: Row) -> bool:
    return True


class Lanes:
    """The verbs of one table. All run inside the caller's transaction."""

    def __init__(self, table: str, *, columns: Sequence[str], scope: str) -> None:
        self.table = table
        #: what counters call these rows
        self.scope = scope
        taken = ", ".join(("id", "position", "retry_count", *columns))
        #: the queue's best claimable row: higher priority first, then the oldest. Read here and written by its id: one
        #: `update … returning` with this as a subquery takes twice the CPU of both
        self._best = f"""
            select lane, {taken} from {table}
            where queue = ? and ready = 1 order by priority desc, position limit ?"""
        # SQLite does not see that `state = 0` is within `state <= 1`, the condition of the index: it has to be said
        pending = "state <= 1 and state = 0"
        #: the pending rows of a lane, oldest first
        self._front = f"select not_before, {taken} from {table} where lane = ? and {pending} order by position limit ?"
        self._take = f"update {table} set state = 1, ready = 0, fence = ?, updated_at = ? where id = ?"
        #: whatever a new row has to wait for: a row that will start a claim, or one that lives, also without any row
        self._busy = f"""
            select 1 from {table} where lane = ?1 and state <= 1 and (state = 1 or trigger = 1)
            union all select 1 from claims where lane = ?1 limit 1"""
        # read, then written by its id, for the same reason
        self._claimed = f"select queue, lane from {table} where id = ? and fence = ? and state = 1"
        self._leave = f"update {table} set state = ?, ready = 0, updated_at = ? where id = ?"
        self._end_if_last = f"""
            delete from claims where fence = ?1
              and not exists (select 1 from {table} where fence = ?1 and state = 1)"""
        self._members = f"select id, retry_count, queue from {table} where fence = ? and state = 1 order by position"
        self._give_back = f"""
            update {table} set state = 0, not_before = ?1, retry_count = ?2, updated_at = ?3,
              ready = case when lane is not null then 0 when ?1 > ?6 then 2 else 1 end
            where id = ?4 and fence = ?5 and state = 1 returning queue"""
        #: an unclaimed lane's first row that may start a claim
        self._mark_head = f"""
            update {table} set ready = case when not_before > ?2 then 2 else 1 end
            where id = (select id from {table} where lane = ?1 and {pending} and trigger = 1 order by position limit 1)
              and not exists (select 1 from claims where lane = ?1)"""
        #: the fence stays: whoever still holds the old one is late, not wrong
        self._enter = f"""
            update {table} set state = 0, ready = lane is null, position = ?, not_before = null, updated_at = ?
            where id = ?"""
        self._timers = f"""
            select id, state, queue from {table} where ready = 2 and not_before <= ? order by not_before limit ?"""
        #: its moment has come, and does not go again if a later boot begins in the past
        self._make_ready = f"update {table} set ready = 1, not_before = null, updated_at = ? where id = ?"
        #: the moment of the next timer
        self.soonest = f"select min(not_before) from {table} where ready = 2"
        self._lane_of = f"select lane, queue, state from {table} where id = ?"
        #: walks the distinct queues with something ready, and finds the best row of each: two index seeks each
        self._ready_queues = f"""
            with recursive ready_ones (name) as (
              select min(queue) from {table} where ready = 1
              union all
              select (select min(queue) from {table} where ready = 1 and queue > name) from ready_ones
              where name is not null)
            select name, best.priority, best.position from ready_ones join {table} best on best.id =
              (select id from {table} where queue = name and ready = 1 order by priority desc, position limit 1)"""

    def entry(self, tx: Transaction, lane: str | None, *, trigger: int = 1) -> dict[str, int]:
        """Columns for a row that is about to be inserted as pending; `trigger` 0: context, which starts no claim."""
        ready = trigger == 1 and self.is_idle(tx, lane)
        return {"state": PENDING, "position": tx.next("position"), "ready": int(ready)}

    def is_idle(self, tx: Transaction, lane: str | None) -> bool:
        """Whether a new row at the end of the lane would be its head."""
        return lane is None or tx.one(self._busy, (lane,)) is None

    def enter(self, tx: Transaction, row: int) -> None:
        """A row that was outside its lane (delayed, held, dead) gets a fresh position at the end of it."""
        lane, queue, before = self._find(tx, row)
        tx.run(self._enter, (tx.next("position"), tx.now, row))
        tx.count(self.scope, queue, before, PENDING)
        if lane is not None:
            self.mark_head(tx, lane)

    def best(self, tx: Transaction, queue: str, limit: int = 1) -> list[Best]:
        """What the next claims of this queue would begin with; none of them changes anything for the others."""
        rows = tx.all(self._best, (queue, limit))
        return [Best(found[0], Row(found[1], found[2], found[3], found[4:])) for found in rows]

    def claim(
        self,
        tx: Transaction,
        queue: str,
        *,
        worker: str,
        lease_ms: int,
        limit: int = 1,
        alone_after: int = 2,
        together: Callable[[Row, Row], bool] = _always,
        in_lane: int | None = None,
        company: bool = False,
        best: Best | None = None,
    ) -> Claim | None:
        """Up to `limit` consecutive due rows of the queue's best lane, or rows of no lane; None when nothing is due.

        `together(first, other)` says whether a row may share the claim; `in_lane` is the limit for rows of a lane. From
        the third attempt on a row is claimed by itself, and not in the `company` of others, so poison dies alone.
        `best`: what `best` has just found.
        """
        if best is not None:
            lane, first = best
        else:
            found = tx.one(self._best, (queue, 1))
            if found is None:
                return None
            lane, first = found[0], Row(found[1], found[2], found[3], found[4:])
        if company and first.retry_count >= alone_after:
            return None
        if lane is not None and in_lane is not None:
            limit = min(limit, in_lane)
        taken = [first]
        if limit > 1 and first.retry_count < alone_after:
            if lane is None:
                taken = self._with_laneless(tx, queue, limit, alone_after)
            else:
                taken = self._with_neighbours(tx, lane, first, limit, alone_after, together)
        fence = tx.next("fence")
        if len(taken) == 1:
            tx.run(self._take, (fence, tx.now, first.id))
        else:
            tx.db.executemany(self._take, [(fence, tx.now, member.id) for member in taken])
        tx.run(NEW_CLAIM, (fence, lane, worker, tx.mono + lease_ms, tx.boot, len(taken)))
        tx.count(self.scope, queue, PENDING, CLAIMED, len(taken))
        return Claim(fence, lane, tuple(taken))

    def _with_laneless(self, tx: Transaction, queue: str, limit: int, alone_after: int) -> list[Row]:
        """The best rows, as long as none of them belongs to a lane or has to run alone."""
        taken = []
        for lane, *found in tx.all(self._best, (queue, limit)):
            if lane is not None or found[2] >= alone_after:
                break
            taken.append(_row(found))
        return taken

    def _with_neighbours(
        self, tx: Transaction, lane: str, best: Row, limit: int, alone_after: int, together: Callable[[Row, Row], bool]
    ) -> list[Row]:
        """The best row, with what stands before it (context, which starts no claim itself) and behind it."""
        front = [(not_before, _row(row)) for not_before, *row in tx.all(self._front, (lane, limit))]
        # it was due when it was marked
        waiting = [(None, best), *((not_before, row) for not_before, row in front if row.id != best.id)]
        taken: list[Row] = []
        for not_before, other in sorted(waiting, key=lambda found: found[1].position):
            due = not_before is None or not_before <= tx.steady
            if taken and (not due or other.retry_count >= alone_after or not together(taken[0], other)):
                break
            taken.append(other)
        if best not in taken:
            return [best]
        return taken[:limit] if best in taken[:limit] else [*taken[: limit - 1], best]

    def finish(self, tx: Transaction, row: int, fence: int, state: int, *, of: str | None = None) -> bool:
        """A claimed row, of that queue if one is named, ends in `state` and frees its lane with the last of its claim.
        False: not ours any more."""
        found = tx.one(self._claimed, (row, fence))
        if found is None or (of is not None and found[0] != of):
            return False
        queue, lane = found
        # as `close` does it: this is the hot way of every queue
        tx.run(self._leave, (state, tx.now, row))
        tx.count(self.scope, queue, CLAIMED, state)
        self.end_if_last(tx, fence, lane)
        return True

    def close(self, tx: Transaction, row: int, fence: int, state: int, *, queue: str, lane: str | None) -> bool:
        """A row of which the caller has just read that it is claimed, under this fence, in this queue and lane, ends in
        `state`. True: it was the last of its claim, which is over."""
        tx.run(self._leave, (state, tx.now, row))
        tx.count(self.scope, queue, CLAIMED, state)
        return self.end_if_last(tx, fence, lane)

    def leave(self, tx: Transaction, row: int, fence: int, state: int) -> bool:
        """A claimed row ends in `state`. Its claim goes on until the caller ends it, also without any row. False: not
        ours any more."""
        found = tx.one(self._claimed, (row, fence))
        if found is None:
            return False
        tx.run(self._leave, (state, tx.now, row))
        tx.count(self.scope, found[0], CLAIMED, state)
        return True

    def give_back(self, tx: Transaction, row: int, fence: int, *, retry_count: int, wait_ms: int = 0) -> bool:
        """A claimed row returns to its place, after a while. Its claim goes on until the caller ends it."""
        not_before = tx.steady + wait_ms if wait_ms else None
        back = tx.one(self._give_back, (not_before, retry_count, tx.now, row, fence, tx.steady))
        if back is None:
            return False
        tx.count(self.scope, back[0], CLAIMED, PENDING)
        return True

    def end_if_last(self, tx: Transaction, fence: int, lane: str | None) -> bool:
        """A row has left its claim: if it was the last, the claim is over and the lane is free. True: it was."""
        tx.run(self._end_if_last, (fence,))
        over = tx.db.changes() > 0
        if over and lane is not None:
            self.mark_head(tx, lane)
        return over

    def members(self, tx: Transaction, fence: int) -> list[tuple[int, int]]:
        """(id, retry_count) of the rows still under way in a claim, in order."""
        return [(row, retries) for row, retries, _ in tx.all(self._members, (fence,))]

    def end(self, tx: Transaction, fence: int) -> list[int]:
        """The claim is over: rows still under way return to their places, uncounted, and the lane is free; who they
        are."""
        left = self.members(tx, fence)
        for row, retries in left:
            self.give_back(tx, row, fence, retry_count=retries)
        ended = tx.one(END_CLAIM, (fence,))
        if ended is not None and ended[0] is not None:
            self.mark_head(tx, ended[0])
        return [row for row, _ in left]

    def remove(self, tx: Transaction, row: int, state: int) -> None:
        """A row that is not claimed leaves for good (cancelled); whoever stood behind it moves up."""
        lane, queue, before = self._find(tx, row)
        tx.run(f"update {self.table} set state = ?, ready = 0, updated_at = ? where id = ?", (state, tx.now, row))
        tx.count(self.scope, queue, before, state)
        if before == PENDING and lane is not None:
            self.mark_head(tx, lane)

    def back(self, tx: Transaction, row: int) -> None:
        """A row that had left its lane for a while takes its old place there, also before those that came since."""
        lane, queue, before = self._find(tx, row)
        tx.run(
            f"update {self.table} set state = 0, ready = lane is null, not_before = null, updated_at = ? where id = ?",
            (tx.now, row),
        )
        tx.count(self.scope, queue, before, PENDING)
        if lane is not None:
            # whoever stood first meanwhile does so no more
            tx.run(f"update {self.table} set ready = 0 where lane = ? and state <= 1 and ready <> 0", (lane,))
            self.mark_head(tx, lane)

    def mark_head(self, tx: Transaction, lane: str) -> None:
        """Whoever stands first in an unclaimed lane may be claimed, now or when its timer is due."""
        tx.run(self._mark_head, (lane, tx.steady))

    def wake(self, tx: Transaction) -> set[str]:
        """Timers that are due, up to a bound: their rows may be claimed now; the queues they belong to."""
        due = tx.all(self._timers, (tx.steady, SWEEP))
        for row, state, _ in due:
            if state == PENDING:
                # a back-off that is over: the row has kept its place
                tx.run(self._make_ready, (tx.now, row))
            else:
                # a delay that is over: the row enters its lane only now
                self.enter(tx, row)
        return {queue for _, _, queue in due}

    def hasten(self, tx: Transaction, row: int) -> None:
        """A row that waits for its timer is due now: it enters its lane, or goes on in its place there."""
        lane, _, state = self._find(tx, row)
        if state != PENDING:
            self.enter(tx, row)
            return
        tx.run(f"update {self.table} set not_before = null, ready = lane is null where id = ?", (row,))
        if lane is not None:
            self.mark_head(tx, lane)

    def next_timer(self, tx: Transaction) -> int | None:
        """When a row becomes due, as milliseconds from now; 0 or below: it is."""
        row = tx.one(self.soonest)
        return row[0] - tx.steady if row and row[0] is not None else None

    def ready_queues(self, tx: Transaction) -> list[str]:
        """Queues that have something to claim, the one with the best head first: none starves behind another's name."""
        found = tx.all(self._ready_queues)
        return [queue for queue, _, _ in sorted(found, key=lambda row: (-row[1], row[2]))]

    def _find(self, tx: Transaction, row: int) -> tuple[str | None, str, int]:
        found = tx.one(self._lane_of, (row,))
        if found is None:
            raise LookupError(f"{self.table} has no row {row}")
        lane, queue, state = found
        return lane, queue, state


def live_fence(tx: Transaction, lane: str) -> int | None:
    """The fence of the lane's live claim."""
    row = tx.one(LIVE_FENCE, (lane,))
    return row[0] if row else None


def extend_all(tx: Transaction, worker: str, lease_ms: int) -> None:
    """A worker's heartbeat: all its claims that are not over, one statement."""
    tx.run(EXTEND_WORKER, (tx.mono + lease_ms, worker, tx.boot, tx.mono))


def extend(tx: Transaction, fence: int, lease_ms: int) -> bool:
    """A claim lives on from now. False: it is over."""
    return tx.one(EXTEND, (tx.mono + lease_ms, fence)) is not None


def expired(tx: Transaction) -> list[int]:
    """The fences of claims whose time is over, up to a bound, longest over first."""
    return [fence for (fence,) in tx.all(EXPIRED, (tx.mono, SWEEP))]


def is_over(tx: Transaction, fence: int) -> bool:
    """Whether the claim is there and its time is over."""
    return tx.one("select 1 from claims where fence = ? and until <= ?", (fence, tx.mono)) is not None


def next_expiry(tx: Transaction) -> int | None:
    """In how many milliseconds the next claim is over; None: there is none."""
    row = tx.one("select min(until) from claims")
    return row[0] - tx.mono if row and row[0] is not None else None
