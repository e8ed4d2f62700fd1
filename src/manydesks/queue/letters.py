"""What people do to jobs: look, cancel, requeue, drop, pause, clear away."""

from __future__ import annotations

import json
from typing import Any

from manydesks.domain.errors import UnknownJob, WrongState
from manydesks.queue.checks import body_value
from manydesks.queue.jobs import JOBS, LIVE_KEY, sweep
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.message import Job
from manydesks.queue.state import JobState, word

COLUMNS = """
id, queue, state, body, key, lane, priority, retry_count, last_error, not_before, created_at, updated_at
"""
LIST = f"""
select {COLUMNS} from jobs
where queue = ?1 and id > ?2 and (?3 is null or ?3 = case when state = 0 and not_before > ?5 then 2 else state end)
order by id limit ?4
"""
LIST_DEAD = f"select {COLUMNS} from jobs where state = 5 and queue = ? and id > ? order by id limit ?"
SHOW = f"select {COLUMNS} from jobs where id = ? and queue = ?"
#: in a back-off, at the head of a lane or behind it
WAITING = "select count(*) from jobs where state = 0 and not_before is not null and queue = ? and not_before > ?"

PAUSE = "update queues set paused = ?1 where name = ?2 and paused <> ?1 returning name"

#: a transaction that clears away stays short
STEP = 1000
PURGE_FROM = (
    "select id, state, lane from jobs where queue = ? and state <> 1 and id > ? and id <= ? order by id limit ?"
)
#: the ended, oldest first: ids are given in the order of sending
PRUNE_FROM = """
select id, state, lane from jobs
where queue = ? and state in (3, 4) and updated_at < ? and id > ? and id <= ? order by id limit ?
"""
PRUNE_EVENTS = "delete from events where seq in (select seq from events where seq <= ? order by seq limit ?)"
#: the newest stays: after the next boot the file's time goes on from it
OLD_EVENTS = """
select max(seq) from (select seq, at from events order by seq limit ?)
where at < ? and seq < (select seq from ledger_head)
"""


def stats(tx: JobsTransaction, queue: str) -> dict[str, int]:
    """How many jobs are in each state; a back-off counts as a delay."""
    sweep(tx)
    counted = tx.counts("jobs", queue)
    waiting = tx.one(WAITING, (queue, tx.steady))
    resting = waiting[0] if waiting else 0
    return {
        "ready": counted.get(JobState.READY, 0) - resting,
        "claimed": counted.get(JobState.CLAIMED, 0),
        "delayed": counted.get(JobState.DELAYED, 0) + resting,
        "completed": counted.get(JobState.COMPLETED, 0),
        "dead": counted.get(JobState.DEAD, 0),
        "cancelled": counted.get(JobState.CANCELLED, 0),
    }


def dead_letters(tx: JobsTransaction, queue: str, *, after: int, limit: int) -> list[Job]:
    sweep(tx)
    return [_job(tx, row) for row in tx.all(LIST_DEAD, (queue, after, limit))]


def listed(tx: JobsTransaction, queue: str, state: int | None, *, after: int, limit: int) -> list[Job]:
    """Jobs in the order of their ids; a back-off counts as a delay."""
    sweep(tx)
    return [_job(tx, row) for row in tx.all(LIST, (queue, after, state, limit, tx.steady))]


def show(tx: JobsTransaction, queue: str, job: int) -> Job:
    sweep(tx)
    return _job(tx, _find(tx, queue, job))


def cancel(tx: JobsTransaction, queue: str, job: int) -> bool:
    """Nobody is to work on it any more; whoever does is refused at the end. False: it has ended already."""
    sweep(tx)
    state = _find(tx, queue, job)[2]
    if state == JobState.CLAIMED:
        fence = tx.one("select fence from jobs where id = ?", (job,))
        assert fence is not None
        JOBS.finish(tx, job, fence[0], JobState.CANCELLED)
    elif state in (JobState.READY, JobState.DELAYED):
        JOBS.remove(tx, job, JobState.CANCELLED)
    else:
        return False
    tx.event("cancelled", queue, job)
    tx.rings = True
    return True


def requeue(tx: JobsTransaction, queue: str, job: int) -> None:
    """A dead job gets new attempts, at the end of its lane."""
    key = _dead(tx, queue, job, "requeued")
    if key is not None and (live := tx.one(LIVE_KEY, (queue, key))) is not None:
        raise WrongState(
            f"The job {job} has the key of the live job {live[0]}: it can be requeued when that has ended."
        )
    tx.run("update jobs set retry_count = 0, last_error = null where id = ?", (job,))
    JOBS.enter(tx, job)
    tx.event("requeued", queue, job)
    tx.rings = True


def hasten(tx: JobsTransaction, queue: str, job: int) -> None:
    """A job that was sent with a delay, or that backs off, is due now."""
    sweep(tx)
    found = _find(tx, queue, job)
    waits = found[2] == JobState.DELAYED or (found[2] == JobState.READY and (found[9] or 0) > tx.steady)
    if not waits:
        raise WrongState(what=f"The job {job}", status=word(found[2]), allowed="a delayed one", act="hastened")
    JOBS.hasten(tx, job)
    tx.event("hastened", queue, job)
    tx.rings = True


def drop(tx: JobsTransaction, queue: str, job: int) -> None:
    """A dead job becomes cancelled: it leaves the list, not the file."""
    _dead(tx, queue, job, "dropped")
    JOBS.remove(tx, job, JobState.CANCELLED)
    tx.event("cancelled", queue, job)


def pause(tx: JobsTransaction, queue: str, paused: bool) -> None:
    """For every process. What is claimed goes on."""
    if tx.one(PAUSE, (int(paused), queue)) is not None:
        tx.event("paused" if paused else "resumed", queue, None)
        tx.paused.pop(queue, None)
        tx.rings = tx.rings or not paused


def purge_step(tx: JobsTransaction, queue: str, after: int, upto: int) -> tuple[int, int | None]:
    """Delete some of what is not claimed; how many, and where to go on (None: nothing is left)."""
    sweep(tx)
    return _delete(tx, queue, "purged", tx.all(PURGE_FROM, (queue, after, upto, STEP)))


def prune_step(tx: JobsTransaction, queue: str, before: int, after: int, upto: int) -> tuple[int, int | None]:
    """Delete some of what was completed or cancelled before a moment; how many, and where to go on."""
    return _delete(tx, queue, "pruned", tx.all(PRUNE_FROM, (queue, before, after, upto, STEP)))


def prune_events_step(tx: JobsTransaction, before: int) -> int:
    """Delete some of the oldest events, those of every queue; how many."""
    found = tx.one(OLD_EVENTS, (STEP, before))
    if found is None or found[0] is None:
        return 0
    changes = tx.db.total_changes()
    tx.run(PRUNE_EVENTS, (found[0], STEP))
    return tx.db.total_changes() - changes


def _delete(tx: JobsTransaction, queue: str, kind: str, rows: list[tuple[Any, ...]]) -> tuple[int, int | None]:
    if not rows:
        return 0, None
    tx.db.executemany("delete from jobs where id = ?", [(row[0],) for row in rows])
    for _, state, _ in rows:
        tx.count("jobs", queue, state, None)
    for lane in {lane for _, state, lane in rows if lane is not None and state == JobState.READY}:
        JOBS.mark_head(tx, lane)
    tx.event(kind, queue, None, json.dumps({"jobs": [row[0] for row in rows]}))
    return len(rows), rows[-1][0]


def _dead(tx: JobsTransaction, queue: str, job: int, act: str) -> str | None:
    sweep(tx)
    found = _find(tx, queue, job)
    if found[2] != JobState.DEAD:
        raise WrongState(what=f"The job {job}", status=word(found[2]), allowed="a dead one", act=act)
    return found[4]  # type: ignore[no-any-return]  # a column


def _find(tx: JobsTransaction, queue: str, job: int) -> tuple[Any, ...]:
    found = tx.one(SHOW, (job, queue))
    if found is None:
        raise UnknownJob(job=job, queue=queue)
    return found


def _job(tx: JobsTransaction, row: tuple[Any, ...]) -> Job:
    id, queue, state, body, key, lane, priority, attempts, reason, not_before, sent_at, changed_at = row
    resting = state == JobState.READY and not_before is not None and not_before > tx.steady
    return Job(
        id=id,
        queue=queue,
        status="delayed" if resting else word(state),
        body=body_value(body),
        key=key,
        lane=None if lane is None else lane[len(queue) + 1 :],
        priority=priority,
        attempts=attempts,
        reason=reason,
        not_before=not_before if resting or state == JobState.DELAYED else None,
        sent_at=sent_at,
        changed_at=changed_at,
    )
