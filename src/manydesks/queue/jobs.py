"""What happens to jobs, each verb inside a transaction: `Queue` and `AsyncQueue` only bring them there.

Jobs ride the same lanes and claims as the office's messages; what is particular to them is a dedupe key, a delay, and
leases that are short because any process may die.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from manydesks.domain.errors import BadInput, UnknownJob
from manydesks.queue.checks import body_value
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Message
from manydesks.queue.state import JobState
from manydesks.store import lanes
from manydesks.store.lanes import Lanes

JOBS = Lanes("jobs", columns=("body",), scope="jobs")

INSERT = """
insert into jobs (id, queue, lane, key, position, ready, priority, state, not_before, body, created_at, updated_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
LIVE_KEY = "select id from jobs where queue = ? and key = ? and key is not null and state <= 2"
#: what a receive has to know first, asked at once: one statement takes the CPU of half the three
LOOK = """
select exists (select 1 from jobs where ready = 2 and not_before <= ?),
  exists (select 1 from claims where until <= ?),
  (select paused from queues where name = ?)
"""
IS_PAUSED = "select paused from queues where name = ?"
MAX_ATTEMPTS = "select max_attempts from queues where name = ?"
NOTE = "update jobs set retry_count = ?, last_error = ? where id = ?"
OURS = "select retry_count, lane from jobs where id = ? and fence = ? and state = 1 and queue = ?"
WHOSE = "select queue, coalesce(fence, 0), lane from jobs where id = ?"
LIVE_CLAIM = "select lane, size from claims where fence = ?"

LEASE_OVER = "the lease ran out"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a queue treats its jobs; each process that opens it may choose its own."""

    queue: str
    #: who claims
    worker: str
    lease_ms: int
    max_attempts: int


def send(
    tx: JobsTransaction,
    queue: str,
    bodies: Sequence[str],
    *,
    delay_ms: int,
    priority: int,
    key: str | None,
    lane: str | None,
) -> list[int]:
    """Store jobs, in order; the ids. A live job with the same key is returned instead."""
    if key is not None and (known := tx.one(LIVE_KEY, (queue, key))) is not None:
        return [known[0]]
    # lanes are the queue's own: two queues may both have a lane `a`
    inner = None if lane is None else f"{queue}/{lane}"
    now, rows = tx.now, []
    # of a lane only the head is ready
    state, ready, not_before = (2, 2, tx.steady + delay_ms) if delay_ms else (0, int(JOBS.is_idle(tx, inner)), None)
    for body in bodies:
        id = tx.next("position")
        position = None if delay_ms else id
        rows.append((id, queue, inner, key, position, ready, priority, state, not_before, body, now, now))
        tx.event("sent", queue, id)
        if inner is not None and not delay_ms:
            ready = 0
    if len(rows) == 1:
        tx.run(INSERT, rows[0])
    else:
        tx.db.executemany(INSERT, rows)
    tx.count("jobs", queue, None, state, len(rows))
    tx.rings = True
    return [row[0] for row in rows]


def receive(tx: JobsTransaction, terms: Terms, limit: int, *, per_lane: int | None = None) -> list[Message]:
    """Up to `limit` due jobs, claimed; none when nothing is due or the queue is paused."""
    _look(tx, terms.queue)
    if is_paused(tx, terms.queue):
        return []
    # a job whose next failure is its last must not take its neighbours' attempts along
    alone = max(1, min(2, terms.max_attempts - 1))
    received: list[Message] = []
    while len(received) < limit:
        claim = JOBS.claim(
            tx,
            terms.queue,
            worker=terms.worker,
            lease_ms=terms.lease_ms,
            limit=limit - len(received),
            alone_after=alone,
            in_lane=per_lane,
            company=bool(received),
        )
        if claim is None:
            break
        lane = None if claim.lane is None else claim.lane[len(terms.queue) + 1 :]
        for row in claim.rows:
            tx.event("claimed", terms.queue, row.id)
            received.append(Message(row.id, body_value(row.values[0]), row.retry_count + 1, claim.fence, lane))
        if claim.rows[0].retry_count >= alone:
            break
    return received


def _look(tx: JobsTransaction, queue: str) -> None:
    """A sweep, if there is anything to sweep."""
    if not tx.swept_timers:
        ((timers, leases, paused),) = tx.all(LOOK, (tx.steady, tx.mono, queue))
        tx.paused[queue] = bool(paused)
        if not timers and not leases:
            tx.swept_timers = tx.swept_leases = True
    sweep(tx)


def is_paused(tx: JobsTransaction, queue: str) -> bool:
    paused = tx.paused.get(queue)
    if paused is None:
        found = tx.one(IS_PAUSED, (queue,))
        paused = tx.paused[queue] = found is not None and bool(found[0])
    return paused


def sweep(tx: JobsTransaction) -> None:
    """Due timers, and leases that are over: those of every queue, so that none depends on who looks."""
    if not tx.swept_timers:
        tx.swept_timers = True
        if JOBS.wake(tx):
            tx.rings = True
    sweep_leases(tx)


def sweep_step(tx: JobsTransaction) -> bool:
    """One bounded sweep; whether there is more to do."""
    tx.swept_timers = tx.swept_leases = False
    sweep(tx)
    ((timers, leases, _),) = tx.all(LOOK, (tx.steady, tx.mono, ""))
    return bool(timers or leases)


def sweep_leases(tx: JobsTransaction, mine: int | None = None) -> None:
    """Up to a bound; `mine`: a fence whose lease is looked at in any case."""
    if not tx.swept_leases:
        tx.swept_leases = True
        over = lanes.expired(tx)
        tx.more_leases = len(over) == lanes.SWEEP
        for fence in over:
            _expire(tx, fence)
    if tx.more_leases and mine is not None and lanes.is_over(tx, mine):
        _expire(tx, mine)


def _expire(tx: JobsTransaction, fence: int) -> None:
    """Whoever had it is gone or too slow: each of its jobs counts an attempt and is ready at once, or dead."""
    for row, retries in JOBS.members(tx, fence):
        queue, attempt = _queue_of(tx, row), retries + 1
        found = tx.one(MAX_ATTEMPTS, (queue,))
        _attempt_failed(tx, queue, row, fence, attempt, LEASE_OVER, found is not None and attempt >= found[0])
    JOBS.end(tx, fence)
    tx.rings = True


def extend(tx: JobsTransaction, terms: Terms, message: Message, lease_ms: int) -> bool:
    """The claim lives on for `lease_ms` from now."""
    sweep_leases(tx, message.fence)
    return _ours(tx, terms, message) is not None and lanes.extend(tx, message.fence, lease_ms)


def extend_worker(tx: JobsTransaction, terms: Terms) -> None:
    """A worker's heartbeat: every claim of it that is not over yet."""
    sweep_leases(tx)
    lanes.extend_all(tx, terms.worker, terms.lease_ms)


def next_due(tx: JobsTransaction) -> int | None:
    """In how many milliseconds a timer or a lease of the file is over; None: there is none."""
    waits = (JOBS.next_timer(tx), lanes.next_expiry(tx))
    return min((wait for wait in waits if wait is not None), default=None)


def complete(tx: JobsTransaction, terms: Terms, message: Message) -> bool:
    """Done; its lane moves on."""
    sweep_leases(tx, message.fence)
    if not JOBS.finish(tx, message.id, message.fence, JobState.COMPLETED, of=terms.queue):
        _refuse_mistaken(tx, terms, message)
        return False
    tx.event("completed", terms.queue, message.id)
    if message.lane is not None:
        tx.rings = True
    return True


def fail(tx: JobsTransaction, terms: Terms, message: Message, reason: str, *, wait_ms: int, permanent: bool) -> bool:
    """An attempt has failed. In a lane the claim is over: what stood behind returns to its place, uncounted."""
    sweep_leases(tx, message.fence)
    ours = _ours(tx, terms, message)
    if ours is None:
        return False
    attempt = ours[0] + 1
    last = permanent or attempt >= terms.max_attempts
    _attempt_failed(tx, terms.queue, message.id, message.fence, attempt, reason, last, wait_ms)
    _close(tx, terms, message.fence, ours[1])
    return True


def release(tx: JobsTransaction, terms: Terms, message: Message) -> bool:
    """Given back untouched: no attempt counts."""
    sweep_leases(tx, message.fence)
    ours = _ours(tx, terms, message)
    if ours is None:
        return False
    JOBS.give_back(tx, message.id, message.fence, retry_count=ours[0])
    tx.event("released", terms.queue, message.id)
    _close(tx, terms, message.fence, ours[1])
    return True


def _ours(tx: JobsTransaction, terms: Terms, message: Message) -> tuple[Any, ...] | None:
    """Retries and lane of the message if it is still claimed under its fence, as the file has them."""
    found = tx.one(OURS, (message.id, message.fence, terms.queue))
    if found is None:
        _refuse_mistaken(tx, terms, message)
    return found


def _refuse_mistaken(tx: JobsTransaction, terms: Terms, message: Message) -> None:
    """A message that never was received like this is a mistake of the caller, not one that comes late."""
    if message.fence > tx.last("fence"):
        raise _never_given(message)
    found = tx.one(WHOSE, (message.id,))
    if found is None and 0 < message.id <= tx.last("position"):
        return  # it has ended, and was cleared away since
    if found is None or found[0] != terms.queue:
        raise UnknownJob(job=message.id, queue=terms.queue)
    if message.fence > found[1]:
        raise _never_given(message)
    live = tx.one(LIVE_CLAIM, (message.fence,)) if message.fence < found[1] else None
    if live is None:
        return
    # a job of a lane leaves with its claim; one without a lane may have left a claim of several that goes on
    lane, size = live
    if lane is not None or found[2] is not None or len(JOBS.members(tx, message.fence)) == size:
        raise _never_given(message)


def _never_given(message: Message) -> BadInput:
    return BadInput(f"The fence {message.fence} is not of the job {message.id}: give the message as it was received.")


def _attempt_failed(
    tx: JobsTransaction, queue: str, job: int, fence: int, attempt: int, reason: str, last: bool, wait_ms: int = 0
) -> None:
    data = json.dumps({"attempt": attempt, "reason": reason}, ensure_ascii=False)
    if last:
        JOBS.finish(tx, job, fence, JobState.DEAD)
    else:
        JOBS.give_back(tx, job, fence, retry_count=attempt, wait_ms=wait_ms)
    tx.run(NOTE, (attempt, reason, job))
    tx.event("died" if last else "retried", queue, job, data)


def _close(tx: JobsTransaction, terms: Terms, fence: int, lane: str | None) -> None:
    """A job has left its claim."""
    tx.rings = True
    if lane is None:
        JOBS.end_if_last(tx, fence, None)
        return
    for job in JOBS.end(tx, fence):
        tx.event("released", terms.queue, job)


def _queue_of(tx: JobsTransaction, job: int) -> str:
    row = tx.one("select queue from jobs where id = ?", (job,))
    assert row is not None
    return str(row[0])
