"""Whether a jobs file keeps its promises: its ledger, played from the start, gives its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from manydesks.queue.jobs import LEASE_OVER
from manydesks.queue.state import JobState
from manydesks.store.database import open_reader

#: a timer's end is not in the ledger, so the ledger cannot tell these two apart
WAITING = frozenset({JobState.READY, JobState.DELAYED})
LIVE = WAITING | {JobState.CLAIMED}
#: what each event does: from which states, to which
STEPS = {
    "claimed": (WAITING, JobState.CLAIMED),
    "completed": ({JobState.CLAIMED}, JobState.COMPLETED),
    "retried": ({JobState.CLAIMED}, JobState.READY),
    "released": ({JobState.CLAIMED}, JobState.READY),
    "died": ({JobState.CLAIMED}, JobState.DEAD),
    "cancelled": (LIVE | {JobState.DEAD}, JobState.CANCELLED),
    "requeued": ({JobState.DEAD}, JobState.READY),
}


@dataclass
class _Played:
    """A job as the ledger has it."""

    state: JobState
    retries: int = 0
    claimed_at: int = 0


def trouble(path: Path, *, lease_ms: int | None = None) -> list[str]:
    """What is wrong between any two transactions of a file whose events were not pruned; nothing, in good order.

    `lease_ms`: no claim of the file was made for less, and none was shortened: so none ran out earlier.
    """
    db = open_reader(path)
    try:
        # one look: others may write meanwhile
        db.execute("begin")
        found = [f"integrity: {row[0]}" for row in db.execute("pragma integrity_check") if row[0] != "ok"]
        return found or [*_ledger(db, lease_ms), *_rows(db)]
    finally:
        db.close()


def _ledger(db: apsw.Connection, lease_ms: int | None) -> Iterable[str]:
    jobs: dict[int, _Played] = {}
    seq = 0
    last = 0
    for seq, (found, at, kind, job, data) in enumerate(
        db.execute("select seq, at, kind, job, data from events order by seq"), 1
    ):
        if found != seq:
            yield f"ledger: event {found} stands where {seq} should"
            return
        if at < last:
            yield f"ledger: event {seq} is older than the one before it"
        last = at
        yield from _step(jobs, kind, job, at, json.loads(data) if data else {}, lease_ms)
    head = db.execute("select seq from ledger_head").fetchall()[0][0]
    if head != seq:
        yield f"ledger: its head is {head}, its last event {seq}"
    rows: dict[int, tuple[int, int]] = {
        id: (state, retries) for id, state, retries in db.execute("select id, state, retry_count from jobs")
    }
    for id in rows.keys() ^ jobs.keys():
        yield f"job {id} is {'not in the ledger' if id in rows else 'in the ledger only'}"
    for id, played in jobs.items():
        state, retries = rows.get(id, (int(played.state), played.retries))
        if retries != played.retries or not (state == played.state or {state, played.state} <= WAITING):
            yield f"job {id} is {JobState(state).name} after {retries} attempts, in the ledger {played}"


def _step(
    jobs: dict[int, _Played], kind: str, job: int | None, at: int, data: dict[str, Any], lease_ms: int | None
) -> Iterable[str]:
    if kind == "sent" and job is not None:
        if job in jobs:
            yield f"job {job} was sent twice"
        jobs[job] = _Played(JobState.READY)
    elif kind in ("purged", "pruned"):
        for gone in data["jobs"]:
            if jobs.pop(gone, _Played(JobState.CLAIMED)).state == JobState.CLAIMED:
                yield f"job {gone} was {kind} while somebody worked on it, or was not there"
    elif kind in STEPS and job is not None:
        before, after = STEPS[kind]
        played = jobs.setdefault(job, _Played(JobState.READY))
        if played.state not in before:
            yield f"job {job} was {kind} while {played.state.name}"
        if data.get("reason") == LEASE_OVER and lease_ms is not None and at - played.claimed_at < lease_ms:
            yield f"job {job} was taken away {at - played.claimed_at} ms after it was claimed"
        played.state = after
        played.claimed_at = at if kind == "claimed" else played.claimed_at
        played.retries = 0 if kind == "requeued" else int(data.get("attempt", played.retries))


def _rows(db: apsw.Connection) -> Iterable[str]:
    claimed = "exists (select 1 from claims c where c.lane = j.lane)"
    head = "(select min(position) from jobs h where h.lane = j.lane and h.state = 0)"
    of_lane = "lane is not null and state <> 2"
    checks = {
        "marked, but not the head of an unclaimed lane": (
            f"select id from jobs j where {of_lane} and ready <> 0 and (state <> 0 or {claimed} or position <> {head})"
        ),
        "the head of an unclaimed lane, but not marked": (
            f"select id from jobs j where {of_lane} and ready = 0 and state = 0 and not {claimed} and position = {head}"
        ),
        "of no lane, but not marked": "select id from jobs where lane is null and state = 0 and ready = 0",
        "delayed, but without its timer": (
            "select id from jobs where (state = 2 and ready <> 2) or (ready = 2 and not_before is null)"
        ),
        "neither waiting nor ended, but marked": "select id from jobs where ready <> 0 and state not in (0, 2)",
        "claimed by nobody": (
            "select id from jobs j where state = 1 "
            "and not exists (select 1 from claims c where c.fence = j.fence and c.lane is j.lane)"
        ),
        "a claim of nothing": (
            "select fence from claims c where not exists (select 1 from jobs j where j.fence = c.fence and j.state = 1)"
        ),
        "a key twice": (
            "select key from jobs where key is not null and state <= 2 group by queue, key having count(*) > 1"
        ),
        "a number beyond its sequence": """
            select name, seq from marks where
              (name = 'position' and seq < (select max(max(id), coalesce(max(position), 0)) from jobs))
              or (name = 'fence' and seq < (select max(fence) from jobs))""",
        "counted wrong": """
            select coalesce(c.agent, r.queue), coalesce(c.state, r.state), c.n, r.n from
              (select queue, state, count(*) n from jobs group by queue, state) r full join
              (select agent, state, n from counters where scope = 'jobs') c on c.agent = r.queue and c.state = r.state
            where coalesce(c.n, 0) <> coalesce(r.n, 0)""",
    }
    for what, sql in checks.items():
        for row in db.execute(sql).fetchall():
            yield f"{what}: {row}"
