"""One synchronous caller beside a loop written by hand: same driver, same pragmas, same tables, same rows.

The loop does what the verbs have to write and nothing else: it looks for no expired lease, no timer, no paused queue,
no key, no lane. What the verbs cost on top is the price of all that, and of being functions.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import apsw

from benchmarks.measure import Contestant, Sample, Setting, Stopwatch, company, interleave
from benchmarks.queue import ours
from benchmarks.report import Fact, Line, Section, Target, line
from manydesks.queue.migrations import JOBS_FILE
from manydesks.store.database import open_reader, open_writer

QUEUE = "work"
WARM_UP = 100

READ_MARK = "select seq from marks where name = ?"
WRITE_MARK = "insert into marks (name, seq) values (?, ?) on conflict (name) do update set seq = excluded.seq"
INSERT_JOB = """
insert into jobs (id, queue, lane, key, position, ready, priority, state, not_before, body, created_at, updated_at)
values (?, 'work', null, null, ?, 1, 0, 0, null, ?, ?, ?)
"""
BEST = """
select id, body from jobs where queue = 'work' and ready = 1 order by priority desc, position limit 1
"""
TAKE = "update jobs set state = 1, ready = 0, fence = ?, updated_at = ? where id = ?"
NEW_CLAIM = "insert into claims (fence, lane, worker, until, boot, size) values (?, null, ?, ?, ?, 1)"
OURS = "select 1 from jobs where id = ? and fence = ? and state = 1"
LEAVE = "update jobs set state = 3, ready = 0, updated_at = ? where id = ?"
END_CLAIM = "delete from claims where fence = ?"
COUNT = """
insert into counters (scope, agent, state, n) values ('jobs', 'work', ?, ?)
on conflict (scope, agent, state) do update set n = n + excluded.n
"""
READ_HEAD = "select seq from ledger_head where only = 1"
WRITE_HEAD = "update ledger_head set seq = ? where only = 1"
EVENT = "insert into events (seq, at, kind, queue, job, data) values (?, ?, ?, 'work', ?, null)"

WORKER = "12345-0123456789ab"
BOOT = "01234567-89ab-cdef-0123-456789abcdef"

#: what both files must agree on; times, names of workers and of boots are each one's own
SAME = (
    "select id, queue, lane, key, position, ready, trigger, priority, state, not_before, retry_count, fence, "
    "last_error, body from jobs order by id",
    "select fence, lane from claims order by fence",
    "select name, seq from marks where name in ('position', 'fence') order by name",
    "select scope, agent, state, n from counters order by 1, 2, 3",
    "select seq from ledger_head",
    "select seq, kind, queue, job, data from events order by seq",
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


def open_by_hand(folder: Path) -> apsw.Connection:
    path = folder / "by-hand.db"
    db = open_writer(path, "crash", JOBS_FILE)
    JOBS_FILE.migrate(db, str(path), 0)
    db.execute("insert into queues (name, max_attempts) values ('work', 5)")
    return db


def loop_by_hand(cursor: apsw.Cursor, times: int) -> None:
    for _ in range(times):
        _send(cursor, _encode(ours.BODY))
        job, fence, text = _receive(cursor)
        _decode(text)
        _complete(cursor, job, fence)


def _send(cursor: apsw.Cursor, text: str) -> None:
    execute = cursor.execute
    execute("begin immediate")
    now = time.time_ns() // 1_000_000
    found: list[Any] = execute(READ_MARK, ("position",)).fetchall()
    job = found[0][0] + 1 if found else 1
    execute(INSERT_JOB, (job, job, text, now, now))
    execute(WRITE_MARK, ("position", job))
    execute(COUNT, (0, 1))
    head: Any = execute(READ_HEAD).fetchall()[0][0]
    execute(WRITE_HEAD, (head + 1,))
    execute(EVENT, (head + 1, now, "sent", job))
    execute("commit")


def _receive(cursor: apsw.Cursor) -> tuple[int, int, str]:
    execute = cursor.execute
    execute("begin immediate")
    now, mono = time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000
    best: Any = execute(BEST).fetchall()[0]
    found: list[Any] = execute(READ_MARK, ("fence",)).fetchall()
    fence = found[0][0] + 1 if found else 1
    execute(TAKE, (fence, now, best[0]))
    execute(NEW_CLAIM, (fence, WORKER, mono + ours.LEASE * 1000, BOOT))
    execute(WRITE_MARK, ("fence", fence))
    cursor.executemany(COUNT, ((0, -1), (1, 1)))
    head: Any = execute(READ_HEAD).fetchall()[0][0]
    execute(WRITE_HEAD, (head + 1,))
    execute(EVENT, (head + 1, now, "claimed", best[0]))
    execute("commit")
    return best[0], fence, best[1]


def _complete(cursor: apsw.Cursor, job: int, fence: int) -> None:
    execute = cursor.execute
    execute("begin immediate")
    now = time.time_ns() // 1_000_000
    if not execute(OURS, (job, fence)).fetchall():
        raise AssertionError("the claim is not ours")
    execute(LEAVE, (now, job))
    execute(END_CLAIM, (fence,))
    cursor.executemany(COUNT, ((1, -1), (3, 1)))
    head: Any = execute(READ_HEAD).fetchall()[0][0]
    execute(WRITE_HEAD, (head + 1,))
    execute(EVENT, (head + 1, now, "completed", job))
    execute("commit")


def _play_by_hand(folder: Path, times: int) -> Sample:
    db = open_by_hand(folder)
    # one cursor for all: `db.execute` would make a new one each time
    cursor = db.cursor()
    loop_by_hand(cursor, WARM_UP)
    with Stopwatch() as watch:
        loop_by_hand(cursor, times)
    db.close()
    return watch.sample(times)


def _play_ours(folder: Path, times: int) -> Sample:
    with ours.open_sync(folder, QUEUE) as queue:

        def loop(times: int) -> None:
            for _ in range(times):
                queue.send(ours.BODY)
                queue.complete(ours.there(queue.receive()))

        loop(WARM_UP)
        with Stopwatch() as watch:
            loop(times)
        return watch.sample(times)


def writes_the_same(folder: Path) -> bool:
    """Whether both leave the same rows: some completed, one claimed, one waiting."""
    db = open_by_hand(folder)
    cursor = db.cursor()
    loop_by_hand(cursor, 20)
    _send(cursor, _encode(ours.BODY))
    _receive(cursor)
    _send(cursor, _encode(ours.BODY))
    db.close()
    with ours.open_sync(folder, QUEUE) as queue:
        for _ in range(20):
            queue.send(ours.BODY)
            queue.complete(ours.there(queue.receive()))
        queue.send(ours.BODY)
        queue.receive()
        queue.send(ours.BODY)
    return _rows(folder / "by-hand.db") == _rows(folder / "jobs.db")


def _rows(path: Path) -> list[list[tuple[Any, ...]]]:
    db = open_reader(path)
    try:
        return [db.execute(statement).fetchall() for statement in SAME]
    finally:
        db.close()


def one_caller(setting: Setting) -> Section:
    times = setting.of(600, least=10)
    with company() as heard:
        mine, hand = interleave(
            # more of them, and shorter: the two are close, and what disturbs one must not miss the other
            dataclasses.replace(setting, rounds=setting.rounds * 4),
            [
                Contestant(name="ours, crash", play=lambda folder: _play_ours(folder, times)),
                Contestant(name="by hand", play=lambda folder: _play_by_hand(folder, times)),
            ],
        )
    same = setting.scratch / "same-rows"
    same.mkdir()
    lines: list[Line | Fact] = [
        line(mine, beside=hand, target=Target(cpu_times=1.3)),
        line(hand),
        Fact(what="both leave the same rows", value="compared table by table", holds=writes_the_same(same)),
    ]
    return Section(title="Send, receive, complete: one thread, a transaction each", lines=lines, company=heard)
