"""Every statement that a verb runs has an index for it: none looks at rows that have ended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.queue import Queue
from manydesks.queue import jobs as jobs_module
from manydesks.queue import letters as letters_module
from manydesks.queue.jobs import JOBS
from manydesks.queue.queue import REGISTER
from manydesks.store import lanes as lanes_module
from manydesks.store.database import open_reader
from manydesks.testing.clock import ManualClock

#: these walk by id, in steps, from where the last step ended
WALKS = {
    letters_module.LIST: "jobs USING INTEGER PRIMARY KEY (rowid>?)",
    letters_module.PURGE_FROM: "jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    letters_module.PRUNE_FROM: "jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
}


class Plans:
    """Explains every statement that a connection runs."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.seen: dict[str, str] = {}
        self._looking = False
        db.exec_trace = self._trace

    def _trace(self, cursor: Any, sql: str, bindings: Any) -> bool:
        if not self._looking and re.match(r"\s*(select|update|delete|insert|with)", sql) and sql not in self.seen:
            self._looking = True
            try:
                steps = self.db.execute(f"explain query plan {sql}", bindings).fetchall()
            finally:
                self._looking = False
            self.seen[sql] = " | ".join(detail for *_, detail in steps)
        return True


@pytest.fixture
def plans(q: Queue) -> Plans:
    return Plans(q.file.writer._db)


def days_work(q: Queue, clock: ManualClock) -> None:
    """Each verb, with something for it to find."""
    q.send("x", key="k", lane="a", priority=3)
    q.send("x", key="k")
    q.send("later", delay=5)
    q.send_batch(range(3), lane="a")
    q.send_batch(range(3))
    q.receive()
    for message in q.receive_batch(10):
        q.extend(message, 60)
        q.complete(message)
        q.complete(message)
    clock.advance(90_000)
    first, second, *rest = q.receive_batch(10)
    q.fail(first, "why", retry_in=5)
    q.release(second)
    q.complete_batch(rest)
    clock.advance(90_000)
    last = q.receive()
    assert last is not None
    q.fail(last, "why", permanent=True)
    q.dead_letters()
    q.requeue(last.id)
    again = q.receive()
    assert again is not None
    q.cancel(again.id)
    q.cancel(q.send("y", lane="a"))
    buried = q.send("z", priority=9)
    message = q.receive()
    assert message is not None
    q.fail(message, "why", permanent=True)
    q.drop(buried)
    q.pause()
    q.resume()
    q.stats()
    q.list()
    q.list("ready")
    q.show(buried)
    q.file.writer.run(lambda tx: jobs_module.extend_worker(tx, q.terms))
    q.file.writer.run(jobs_module.next_due)
    q.send("left", lane="b")
    q.prune(1)
    q.purge()
    with q.transaction() as tx:
        q.send("in a transaction", tx=tx)
    q.file.writer.run(lambda tx: tx.run(REGISTER, (q.name, 5)))


def test_no_statement_scans_a_table_that_grows(q: Queue, plans: Plans, clock: ManualClock) -> None:
    days_work(q, clock)
    assert len(plans.seen) > 40
    bad = {}
    for sql, plan in plans.seen.items():
        for table in ("jobs", "events", "claims"):
            # `SCAN t USING INDEX` over a partial index walks only the rows that are under way
            if re.search(rf"SCAN {table}\b(?! USING (COVERING )?INDEX {table}_(ready|timer|lane|claim|wait))", plan):
                bad[sql] = plan
        if "AUTOMATIC" in plan or ("TEMP B-TREE" in plan and sql != JOBS._members):
            bad[sql] = plan
    # the few claims there are; the head of the ledger by its key, up to a limit
    allowed = {letters_module.OLD_EVENTS, letters_module.PRUNE_EVENTS}
    assert {sql: plan for sql, plan in bad.items() if sql not in allowed} == {}
    assert set(WALKS) <= set(plans.seen)


def test_old_events_are_found_from_the_front(q: Queue, plans: Plans, clock: ManualClock) -> None:
    days_work(q, clock)
    assert "limit ?" in letters_module.OLD_EVENTS
    assert "USING INDEX" not in plans.seen[letters_module.OLD_EVENTS]
    assert "TEMP B-TREE" not in plans.seen[letters_module.OLD_EVENTS]  # in the order of the table itself
    assert "SEARCH events USING INTEGER PRIMARY KEY" in plans.seen[letters_module.PRUNE_EVENTS]


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        (JOBS._best, "jobs USING INDEX jobs_ready (queue=?)"),
        (JOBS._take, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (JOBS._claimed, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (JOBS._leave, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (JOBS._front, "jobs USING INDEX jobs_lane (lane=?)"),
        (JOBS._busy, "jobs USING INDEX jobs_lane (lane=?)"),
        (JOBS._mark_head, "jobs USING INDEX jobs_lane (lane=?)"),
        (JOBS._members, "jobs USING INDEX jobs_claim (fence=?)"),
        (JOBS._end_if_last, "jobs USING COVERING INDEX jobs_claim (fence=?)"),
        (JOBS._give_back, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (JOBS._timers, "jobs USING INDEX jobs_timer (not_before<?)"),
        (JOBS.soonest, "jobs USING COVERING INDEX jobs_timer"),
        (lanes_module.EXPIRED, "claims USING COVERING INDEX claims_until (until<?)"),
        (lanes_module.END_CLAIM, "claims USING INTEGER PRIMARY KEY (rowid=?)"),
        (lanes_module.EXTEND, "claims USING INTEGER PRIMARY KEY (rowid=?)"),
        (lanes_module.EXTEND_WORKER, "claims USING INDEX claims_until (until>?)"),
        (jobs_module.LIVE_KEY, "jobs USING INDEX jobs_key (queue=? AND key=?)"),
        (jobs_module.OURS, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (jobs_module.WHOSE, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (jobs_module.LIVE_CLAIM, "claims USING INTEGER PRIMARY KEY (rowid=?)"),
        (letters_module.LIST_DEAD, "jobs USING INDEX jobs_dead (queue=? AND id>?)"),
        (letters_module.WAITING, "jobs USING COVERING INDEX jobs_wait (queue=? AND not_before>?)"),
        (letters_module.SHOW, "jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        *WALKS.items(),
    ],
)  # fmt: skip
def test_each_hot_statement_has_its_index(q: Queue, sql: str, way: str) -> None:
    db = q.file.writer._db
    needed = max((int(number) for number in re.findall(r"\?(\d)", sql)), default=0) or sql.count("?")
    plan = " | ".join(detail for *_, detail in db.execute(f"explain query plan {sql}", (None,) * needed).fetchall())
    assert way in plan, plan
    # the few rows of a claim may be sorted; a lane or a queue may be long
    assert sql == JOBS._members or "TEMP B-TREE" not in plan, plan


def test_plans_stay_when_the_tables_grow(q: Queue, plans: Plans, clock: ManualClock) -> None:
    """Nobody runs ANALYZE here; if somebody does, the hot statements keep their indexes."""
    q.send_batch(range(3_000))
    q.complete_batch(q.receive_batch(2_000))
    q.file.writer._db.execute("analyze")
    plans.seen.clear()
    q.send("x", lane="a", key="k")
    message = q.receive()
    assert message is not None
    q.complete(message)
    assert "INDEX jobs_ready (queue=?)" in plans.seen[JOBS._best]
    assert "INDEX jobs_claim (fence=?)" in plans.seen[JOBS._end_if_last]
    assert not [plan for plan in plans.seen.values() if re.search(r"SCAN (jobs|events|claims)\b", plan)]


def test_statements_are_prepared_once(q: Queue, path: Path) -> None:
    """A value that is bound must not make SQLite think again: three quarters of a claim's time were spent on that."""
    db = q.file.writer._db
    assert db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
    reader = open_reader(path)
    assert reader.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
    reader.close()

    def cycle(n: int) -> None:
        q.send(n, priority=n % 3, lane=str(n % 4) if n % 2 else None, key=f"k{n}", delay=n % 5)
        message = q.receive()
        if message is not None:
            q.complete(message)

    for n in range(20):
        cycle(n)
    before = db.cache_stats()
    reprepared: list[str] = []

    def profile(event: dict[str, Any]) -> None:
        if event["stmt_status"].get("SQLITE_STMTSTATUS_REPREPARE", 0) > seen.get(event["sql"], 0):
            reprepared.append(event["sql"])

    seen: dict[str, int] = {}
    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    for n in range(20, 60):
        cycle(n)
    db.trace_v2(0, None)
    after = db.cache_stats()
    assert after["misses"] == before["misses"]
    assert after["no_vdbe"] == before["no_vdbe"]
    assert reprepared == []
