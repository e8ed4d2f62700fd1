"""A full file beside an empty one, and one long lane."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

import apsw

from benchmarks.measure import Contestant, Sample, Setting, Stopwatch, company, interleave
from benchmarks.queue import ours
from benchmarks.report import Fact, Section, Target, line

STEP = 100
#: megabytes that a process may grow by while it works through the lane; SQLite's page cache is full by then
FLAT = 16.0

#: rows as the verbs would have left them; the jobs' ids go on from what is there
JOBS = """
with recursive n(i) as (select 1 union all select i + 1 from n where i < :count)
insert into jobs (id, queue, position, ready, priority, state, fence, retry_count, body, created_at, updated_at)
select :last + i, 'work-0', :last + i, 0, 0, :state, case when :state = 1 then :fence + i else 1 end,
  case when :state = 5 then 5 else 0 end, :body, 0, 0 from n
"""
CLAIMS = """
insert into claims (fence, lane, worker, until, boot, size)
select fence, null, 'somebody', 9000000000000000, (select substr(name, 6) from marks where name like 'boot:%'), 1
from jobs where state = 1
"""
EVENTS = """
with recursive n(i) as (select 1 union all select i + 1 from n where i < :count)
insert into events (seq, at, kind, queue, job) select :head + i, 0, :kind, 'work-0', :last + i from n
"""


def ballast(setting: Setting) -> Section:
    claimed, dead, completed = (setting.of(count, least=100) for count in (10_000, 10_000, 1_000_000))
    full = setting.scratch / "ballast"
    full.mkdir()
    _load(full, claimed=claimed, dead=dead, completed=completed)
    cycles = setting.of(6_400, least=64)

    def play(folder: Path) -> Sample:
        return asyncio.run(ours.run_crowd(folder, ours.cycle, cycles))

    with company() as heard:
        heavy, empty = interleave(
            setting,
            # one file for all its rounds: what it holds makes no round different from another
            [
                Contestant(name="with the ballast", play=lambda _: play(full)),
                Contestant(name="an empty file", play=play),
            ],
        )
    with ours.open_sync(full, "work-0") as queue:
        stats = queue.stats()
    if (stats["claimed"], stats["dead"]) != (claimed, dead) or stats["completed"] < completed:
        raise AssertionError(f"the ballast did not stay as it was: {stats}")
    return Section(
        title=f"Send, receive, complete beside {claimed:,} claimed, {dead:,} dead, {completed:,} completed jobs",
        lines=[line(heavy, beside=empty, target=Target(times=0.8, cpu_times=1.25)), line(empty)],
        company=heard,
    )


def _load(folder: Path, *, claimed: int, dead: int, completed: int) -> None:
    ours.open_sync(folder, "work-0").close()
    db = apsw.Connection(str(folder / "jobs.db"))
    last, head = 0, 0
    body = '{"to":"somebody@example.org","template":"welcome","number":12345}'
    with db:
        for state, count, kinds in (
            (3, completed, ("sent", "claimed", "completed")),
            (5, dead, ("sent", "claimed", "died")),
            (1, claimed, ("sent", "claimed")),
        ):
            db.execute(JOBS, {"count": count, "last": last, "state": state, "body": body, "fence": 1})
            for kind in kinds:
                db.execute(EVENTS, {"count": count, "head": head, "kind": kind, "last": last})
                head += count
            db.execute("insert into counters values ('jobs', 'work-0', ?, ?)", (state, count))
            last += count
        db.execute(CLAIMS)
        db.execute("update ledger_head set seq = ?", (head,))
        db.executemany("insert into marks values (?, ?)", (("position", last), ("fence", claimed + 1)))
    db.pragma("wal_checkpoint(truncate)")
    db.close()


def lane(setting: Setting) -> Section:
    """One lane, claimed in order and in bounded batches; what the process grows by."""
    waiting = setting.of(100_000, least=1_000)
    folder = setting.scratch / "lane"
    folder.mkdir()
    with company() as heard, ours.open_sync(folder) as queue:
        for _ in range(10):
            queue.send_batch([ours.BODY] * (waiting // 10), lane="only")
        last, seen, largest, start, peak = 0, 0, 0, 0.0, 0.0
        with Stopwatch() as watch:
            while batch := queue.receive_batch(STEP):
                if [message.id for message in batch] != sorted(message.id for message in batch) or batch[0].id <= last:
                    raise AssertionError("out of order")
                last, seen, largest = batch[-1].id, seen + len(batch), max(largest, len(batch))
                queue.complete_batch(batch)
                if seen >= waiting // 5:
                    start, peak = start or _megabytes(), max(peak, _megabytes())
    taken = watch.sample(seen)
    grown = peak - start
    return Section(
        title=f"One lane of {waiting:,} jobs, receive_batch({STEP}) and complete_batch",
        lines=[
            Fact(
                what="claimed in order, none left out",
                value=f"{seen:,} in batches of up to {largest}; {taken.rate:,.0f}/s, {taken.micros:.1f} µs CPU each",
                target=f"batches ≤ {STEP}",
                holds=seen == waiting and largest <= STEP,
            ),
            Fact(
                what="memory, from a fifth of the way to the end",
                value=f"{start:.0f} MB, at most {grown:.1f} MB more",
                target=f"≤ {FLAT:g} MB more",
                holds=grown <= FLAT,
            ),
        ],
        company=heard,
    )


def _megabytes() -> float:
    """What the process has in memory; where the machine does not say, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1e6 if sys.platform == "darwin" else 1e3)
