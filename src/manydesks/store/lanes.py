"""Lanes and claims, written once: for messages, for responses, for any table with the lane columns.

A *claim* is a row: the right to work on some consecutive rows of one lane until a moment, under a fence that is never
given twice. At most one live claim exists per lane. Whoever works under a claim names its fence; a stale fence changes
nothing.

`ready` keeps the hot statement from looking at rows that cannot be claimed: of the pending rows of an unclaimed lane
only the first that may start a claim is marked (1: now, 2: when its timer is due), of a claimed lane none is.

A table takes part if it has: id, queue, lane, position, ready, trigger, priority, state (0 pending, 1 claimed),
not_before, retry_count, fence, updated_at; and the indexes `<table>_ready`, `<table>_timer`, `<table>_lane` and
`<table>_claim`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from manydesks.store.transaction import Transaction

PENDING, CLAIMED = 0, 1

NEW_CLAIM = "insert into claims (fence, lane, worker, until, boot) values (?, ?, ?, ?, ?)"
END_CLAIM = "delete from claims where fence = ? returning lane"
LIVE_FENCE = "select fence from claims where lane = ?"
EXTEND_WORKER = "update claims set until = ? where worker = ? and boot = ?"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One claimed row."""

    id: int
    position: int
    retry_count: int
    #: the columns the table asked for, in its order
    values: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Claim:
    fence: int
    lane: str | None
    rows: tuple[Row, ...]


def _row(found: Sequence[Any]) -> Row:
    return Row(id=found[0], position=found[1], retry_count=found[2], values=tuple(found[3:]))


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
            where queue = ? and ready = 1 order by priority desc, position limit 1"""
        # SQLite does not see that `state = 0` is within `state <= 1`, the condition of the index: it has to be said
        pending = "state <= 1 and state = 0"
        #: the pending rows of a lane, oldest first
        self._front = f"select not_before, {taken} from {table} where lane = ? and {pending} order by position limit ?"
        self._take = f"update {table} set state = 1, ready = 0, fence = ?, updated_at = ? where id = ?"
        #: whatever a new row has to wait for: a claim, or a row that will start one
        self._busy = f"select 1 from {table} where lane = ? and state <= 1 and (state = 1 or trigger = 1) limit 1"
        self._leave = f"""
            update {table} set state = ?, ready = 0, updated_at = ? where id = ? and fence = ? and state = 1
            returning queue"""
        self._end_if_last = f"""
            delete from claims where fence = ?1
              and not exists (select 1 from {table} where fence = ?1 and state = 1) returning lane"""
        self._members = f"select id, retry_count, queue from {table} where fence = ? and state = 1 order by position"
        self._give_back = f"""
            update {table} set state = 0, not_before = ?1, retry_count = ?2, updated_at = ?3,
              ready = case when lane is not null then 0 when ?1 > ?3 then 2 else 1 end
            where id = ?4 and fence = ?5 and state = 1 returning queue"""
        #: an unclaimed lane's first row that may start a claim
        self._mark_head = f"""
            update {table} set ready = case when not_before > ?2 then 2 else 1 end
            where id = (select id from {table} where lane = ?1 and {pending} and trigger = 1 order by position limit 1)
              and not exists (select 1 from claims where lane = ?1)"""
        self._mark_laneless = f"update {table} set ready = case when not_before > ? then 2 else 1 end where id = ?"
        self._due = f"update {table} set ready = 1 where ready = 2 and not_before <= ? returning queue"
        self._next_timer = f"select min(not_before) from {table} where ready = 2"
        self._lane_of = f"select lane, queue, state from {table} where id = ?"
        #: walks the distinct queues with something ready: one index seek each
        self._ready_queue = f"select min(queue) from {table} where ready = 1 and queue > ?"
        self._rank = f"""
            select -priority, position from {table}
            where queue = ? and ready = 1 order by priority desc, position limit 1"""

    def entry(self, tx: Transaction, lane: str | None, *, trigger: int = 1) -> dict[str, int]:
        """Columns for a row that is about to be inserted as pending; `trigger` 0: context, which starts no claim."""
        ready = trigger == 1 and (lane is None or tx.one(self._busy, (lane,)) is None)
        return {"state": PENDING, "position": tx.next("position"), "ready": int(ready)}

    def enter(self, tx: Transaction, row: int) -> None:
        """A row that was outside its lane (held, dead) gets a fresh position at the end of it."""
        found = tx.one(self._lane_of, (row,))
        if found is None:
            raise LookupError(f"{self.table} has no row {row}")
        lane, queue, before = found
        tx.run(
            f"update {self.table} set state = 0, ready = 0, position = ?, not_before = null, fence = null, "
            "updated_at = ? where id = ?",
            (tx.next("position"), tx.now, row),
        )
        tx.count(self.scope, queue, before, PENDING)
        self._mark(tx, lane, row)

    def claim(
        self,
        tx: Transaction,
        queue: str,
        *,
        worker: str,
        lease_ms: int,
        limit: int = 1,
        alone_after: int = 2,
        together: Callable[[Row, Row], bool] = lambda first, other: True,
    ) -> Claim | None:
        """Up to `limit` consecutive due rows of the queue's best lane; None when nothing is due.

        `together(first, other)` says whether a row may share the claim. From the third attempt on a lane runs one row
        at a time, so poison dies alone.
        """
        found = tx.one(self._best, (queue,))
        if found is None:
            return None
        lane, best = found[0], _row(found[1:])
        taken = [best]
        if lane is not None and limit > 1 and best.retry_count < alone_after:
            taken = self._with_neighbours(tx, lane, best, limit, alone_after, together)
        fence = tx.next("fence")
        for member in taken:
            tx.run(self._take, (fence, tx.now, member.id))
        tx.run(NEW_CLAIM, (fence, lane, worker, tx.mono + lease_ms, tx.boot))
        tx.count(self.scope, queue, PENDING, CLAIMED, len(taken))
        return Claim(fence=fence, lane=lane, rows=tuple(taken))

    def _with_neighbours(
        self, tx: Transaction, lane: str, best: Row, limit: int, alone_after: int, together: Callable[[Row, Row], bool]
    ) -> list[Row]:
        """The best row, with what stands before it (context, which starts no claim itself) and behind it."""
        front = [(not_before, _row(row)) for not_before, *row in tx.all(self._front, (lane, limit))]
        # it was due when it was marked, whatever the wall clock says since
        waiting = [(None, best), *((not_before, row) for not_before, row in front if row.id != best.id)]
        taken: list[Row] = []
        for not_before, other in sorted(waiting, key=lambda found: found[1].position):
            due = not_before is None or not_before <= tx.now
            if taken and (not due or other.retry_count >= alone_after or not together(taken[0], other)):
                break
            taken.append(other)
        if best not in taken:
            return [best]
        return taken[:limit] if best in taken[:limit] else [*taken[: limit - 1], best]

    def finish(self, tx: Transaction, row: int, fence: int, state: int) -> bool:
        """A claimed row ends in `state` and frees its lane with the last of its claim. False: not ours any more."""
        left = tx.one(self._leave, (state, tx.now, row, fence))
        if left is None:
            return False
        tx.count(self.scope, left[0], CLAIMED, state)
        ended = tx.one(self._end_if_last, (fence,))
        if ended is not None and ended[0] is not None:
            tx.run(self._mark_head, (ended[0], tx.now))
        return True

    def give_back(self, tx: Transaction, row: int, fence: int, *, retry_count: int, not_before: int | None) -> bool:
        """A claimed row returns to its place in the lane. The claim goes on until the caller ends it."""
        back = tx.one(self._give_back, (not_before, retry_count, tx.now, row, fence))
        if back is None:
            return False
        tx.count(self.scope, back[0], CLAIMED, PENDING)
        return True

    def members(self, tx: Transaction, fence: int) -> list[tuple[int, int]]:
        """(id, retry_count) of the rows still under way in a claim, in order."""
        return [(row, retries) for row, retries, _ in tx.all(self._members, (fence,))]

    def end(self, tx: Transaction, fence: int) -> None:
        """The claim is over: rows still under way return to their places, uncounted, and the lane is free."""
        for row, retries, _ in tx.all(self._members, (fence,)):
            self.give_back(tx, row, fence, retry_count=retries, not_before=None)
        ended = tx.one(END_CLAIM, (fence,))
        if ended is None:
            return
        if ended[0] is not None:
            tx.run(self._mark_head, (ended[0], tx.now))

    def remove(self, tx: Transaction, row: int, state: int) -> None:
        """A row that is not claimed leaves for good (cancelled); whoever stood behind it moves up."""
        found = tx.one(self._lane_of, (row,))
        if found is None:
            raise LookupError(f"{self.table} has no row {row}")
        lane, queue, before = found
        tx.run(f"update {self.table} set state = ?, ready = 0, updated_at = ? where id = ?", (state, tx.now, row))
        tx.count(self.scope, queue, before, state)
        if before == PENDING and lane is not None:
            tx.run(self._mark_head, (lane, tx.now))

    def wake(self, tx: Transaction) -> set[str]:
        """Timers that are due: their rows may be claimed now; the queues they belong to."""
        return {queue for (queue,) in tx.all(self._due, (tx.now,))}

    def next_timer(self, tx: Transaction) -> int | None:
        row = tx.one(self._next_timer)
        return row[0] if row else None

    def ready_queues(self, tx: Transaction) -> list[str]:
        """Queues that have something to claim, the one with the best head first: none starves behind another's name."""
        queues: list[str] = []
        while (row := tx.one(self._ready_queue, (queues[-1] if queues else "",))) and row[0] is not None:
            queues.append(row[0])
        return sorted(queues, key=lambda queue: tx.one(self._rank, (queue,)) or ())

    def _mark(self, tx: Transaction, lane: str | None, row: int) -> None:
        if lane is None:
            tx.run(self._mark_laneless, (tx.now, row))
        elif tx.one(LIVE_FENCE, (lane,)) is None:
            tx.run(self._mark_head, (lane, tx.now))


def live_fence(tx: Transaction, lane: str) -> int | None:
    """The fence of the lane's live claim."""
    row = tx.one(LIVE_FENCE, (lane,))
    return row[0] if row else None


def extend_all(tx: Transaction, worker: str, lease_ms: int) -> None:
    """A worker's heartbeat: all its claims, one statement."""
    tx.run(EXTEND_WORKER, (tx.mono + lease_ms, worker, tx.boot))
