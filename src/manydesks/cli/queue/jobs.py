"""What the commands do with a jobs file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.quantity import count, moment
from manydesks.cli.queue.file import job_id, looked_at, opened
from manydesks.cli.text import harmless, one_line

if TYPE_CHECKING:
    from manydesks.queue import Job

COLUMNS = (
    Column("id", right=True),
    Column("state"),
    Column("lane"),
    Column("attempts", right=True),
    Column("since"),
    Column("reason", flexible=True),
    Column("body", flexible=True),
)
STATES = ("ready", "claimed", "delayed", "completed", "dead", "cancelled")
DAY_SECONDS = 86_400


def status(invocation: Invocation, file: Path, queue: str | None) -> None:
    """One line for each queue of the file."""
    from manydesks.queue.look import queues_of

    known = {row.name: row.paused for row in queues_of(file)}
    found = {}
    for name in known if queue is None else [queue]:
        with looked_at(file, name) as q:
            found[name] = {**q.stats(), "paused": known[name]}
    out = invocation.out
    if out.json:
        out.value(found)
        return
    columns = (Column("queue"), *(Column(state, right=True) for state in STATES), Column("paused"))
    rows = ((name, *(row[state] for state in STATES), "yes" if row["paused"] else "") for name, row in found.items())
    out.table(columns, rows)


def list_jobs(
    invocation: Invocation, file: Path, queue: str | None, *, state: str | None, limit: int, after: int
) -> None:
    with looked_at(file, queue) as q:
        found = q.list(state, after=after, limit=limit)
    _table(invocation, found, "There are no such jobs.")
    if len(found) == limit and not invocation.json:
        invocation.out.note(f"There may be more: --after {found[-1].id} shows the next page.")


def dead(invocation: Invocation, file: Path, queue: str | None) -> None:
    with looked_at(file, queue) as q:
        _table(invocation, q.dead_letters(), "There are no dead letters.")


def show(invocation: Invocation, file: Path, queue: str | None, id: str) -> None:
    with looked_at(file, queue) as q:
        job = q.show(job_id(id))
    out = invocation.out
    if out.json:
        out.value(dataclasses.asdict(job))
        return
    lines: dict[str, Any] = {
        "job": job.id,
        "queue": one_line(job.queue),
        "state": out.status(job.status) + f"  since {moment(job.changed_at)}",
        "sent": moment(job.sent_at),
        "lane": None if job.lane is None else one_line(job.lane),
        "key": None if job.key is None else one_line(job.key),
        "priority": job.priority or None,
        "waits": None if job.not_before is None else f"until {moment(job.not_before)}",
        "failed": count(job.attempts, "attempt") if job.attempts else None,
        "error": None if job.reason is None else one_line(job.reason),
    }
    for name, words in lines.items():
        if words is not None:
            out.line(f"{name:<9}{words}")
    out.line()
    out.line(harmless(json.dumps(job.body, ensure_ascii=False, indent=2)))


def retry(invocation: Invocation, file: Path, queue: str | None, id: str) -> None:
    with opened(file, queue) as q:
        q.requeue(job_id(id))
    _say(invocation, id, "ready", "is ready again")


def release(invocation: Invocation, file: Path, queue: str | None, id: str) -> None:
    with opened(file, queue) as q:
        q.hasten(job_id(id))
    _say(invocation, id, "ready", "is ready now")


def drop(invocation: Invocation, file: Path, queue: str | None, id: str) -> None:
    with opened(file, queue) as q:
        q.drop(job_id(id))
    _say(invocation, id, "cancelled", "dropped")


def cancel(invocation: Invocation, file: Path, queue: str | None, id: str) -> None:
    with opened(file, queue) as q:
        changed = q.cancel(job_id(id))
        state = q.show(job_id(id)).status
    _say(invocation, id, state, "is cancelled" if changed else f"had ended already: it is {state}")


def pause(invocation: Invocation, file: Path, queue: str | None, *, paused: bool) -> None:
    with opened(file, queue) as q:
        if paused:
            q.pause()
        else:
            q.resume()
    if invocation.json:
        invocation.out.value({"queue": q.name, "paused": paused})
    else:
        invocation.out.line(f"{one_line(q.name)} {'is paused: nothing is handed out' if paused else 'goes on'}.")


def prune(invocation: Invocation, file: Path, queue: str | None, days: float) -> None:
    with opened(file, queue) as q:
        pruned = q.prune(days * DAY_SECONDS)
    if invocation.json:
        invocation.out.value({"queue": q.name, "pruned": pruned})
    else:
        invocation.out.line(f"{count(pruned, 'job')} of {one_line(q.name)} pruned.")


def _table(invocation: Invocation, jobs: list[Job], none: str) -> None:
    out = invocation.out
    if out.json:
        out.value([dataclasses.asdict(job) for job in jobs])
        return
    if not jobs:
        out.note(none)
        return
    rows = (
        (job.id, job.status, job.lane, job.attempts, moment(job.changed_at), job.reason, json.dumps(job.body))
        for job in jobs
    )
    out.table(COLUMNS, rows)


def _say(invocation: Invocation, id: str, status: str, words: str) -> None:
    if invocation.json:
        invocation.out.value({"id": job_id(id), "status": status})
    else:
        invocation.out.line(f"Job {job_id(id)} {words}.")
