"""The hot statements use the indexes that were made for them: none looks at rows that have ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.domain.failure import Failure, FailureClass
from manydesks.store.accept import MESSAGES
from manydesks.store.database import open_writer
from manydesks.store.deliver import Delivery
from manydesks.store.migrations import OFFICE
from manydesks.store.respond import RESPONSES
from manydesks.store.store import Store


class Plans:
    """Explains every statement that a connection runs."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.seen: dict[str, str] = {}
        self._looking = False
        db.exec_trace = self._trace

    def _trace(self, cursor: Any, sql: str, bindings: Any) -> bool:
        if not self._looking and re.match(r"\s*(select|update|delete|insert)", sql) and sql not in self.seen:
            self._looking = True
            try:
                steps = self.db.execute(f"explain query plan {sql}", bindings).fetchall()
            finally:
                self._looking = False
            self.seen[sql] = " | ".join(detail for *_, detail in steps)
        return True


GROWING = ("messages", "responses", "runs", "run_messages", "events", "bodies", "arrivals", "agent_messages")


@pytest.fixture
async def plans(office: Any) -> Iterator[Plans]:
    await office.sent(to="ada")
    store: Store = office.store
    db = store._writer._db
    await store._do(lambda tx: tx.all("select 1"))
    return Plans(db)


async def test_no_statement_of_a_days_work_scans_a_table_that_grows(office: Any, plans: Plans, clock: Any) -> None:
    """The real verbs, each statement explained as it runs."""
    first = await office.sent("[@ada: one] [@bob: two]")
    runs = await office.claim()
    assert len(runs) == 2
    ada, bob = runs
    desk = office.desk(ada)
    desk.step("tool_call", tool="t", id="1").step("usage", input=1)
    for work in ada.messages:
        desk.say("hello [@cyd: help]", to=work.message_id).ack(work.message_id)
    await desk.take()
    await office.desk(bob).say("no").fail(bob.messages[0].message_id).take()
    clock.advance(60_000)
    (again,) = [claimed for claimed in await office.claim() if claimed.agent == "bob"]
    await office.store.run_died(
        again.session, again.fence, Failure(kind=FailureClass.PERMANENT, reason="gone"), office.rules
    )
    await office.store.retry(again.messages[0].message_id)
    for delivery in (Delivery(retry_in_ms=0), Delivery(receipt="r")):
        for parcel in await office.store.claim_parcels(["console"], most=10):
            await office.store.settle(parcel, delivery)
    await office.store.next_timer()
    await office.store.extend()
    await office.store.cursors(ada.session)
    await office.store.open_runs()
    await office.store.release(office.rules, {})
    left = await office.claim()
    for claimed in left:
        await office.store.run_released(claimed.session, claimed.fence, "stop")
    assert first

    assert len(plans.seen) > 50
    scans = {
        sql: plan
        for sql, plan in plans.seen.items()
        for table in GROWING
        # `SCAN t USING INDEX` over a partial index walks only the rows that are under way
        if re.search(rf"SCAN {table}\b(?! USING (COVERING )?INDEX {table}_(ready|timer|lane|claim|dead))", plan)
        or re.search(r"SCAN (m|r|e|b)\b(?! USING)", plan)
        or "AUTOMATIC" in plan
    }
    assert scans == {}


@pytest.fixture
def db(path: Path) -> Iterator[apsw.Connection]:
    made = open_writer(path, "crash")
    OFFICE.migrate(made, str(path), 1)
    yield made
    made.close()


@pytest.mark.parametrize("table", ["messages", "responses"])
@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("_best", "ready"), ("_rank", "ready"), ("_ready_queue", "ready"), ("_timers", "timer"),
        ("_next_timer", "timer"), ("_front", "lane"), ("_busy", "lane"), ("_mark_head", "lane"), ("_members", "claim"),
    ],
)  # fmt: skip
def test_each_lane_statement_has_its_partial_index(db: apsw.Connection, table: str, statement: str, index: str) -> None:
    lanes = MESSAGES if table == "messages" else RESPONSES
    sql = getattr(lanes, statement)
    needed = max((int(number) for number in re.findall(r"\?(\d)", sql)), default=0) or sql.count("?")
    plan = " | ".join(detail for *_, detail in db.execute(f"explain query plan {sql}", (None,) * needed).fetchall())
    assert f"INDEX {table}_{index}" in plan, plan
    # the few rows of a claim may be sorted; a lane or a queue may be long
    assert index == "claim" or "TEMP B-TREE" not in plan, plan
