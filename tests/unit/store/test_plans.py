"""The hot statements use the indexes that were made for them: none looks at rows that have ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.domain.budget import Amounts, Budget
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


async def test_nor_does_one_of_those_that_wait_for_others(office: Any, plans: Plans, clock: Any) -> None:
    await office.store.add_team(id="web", name="Web", leader="ada", members=["bob", "cyd"])
    await office.sent("[@ada: one] -> [@bob: two] [@ada: three] => [@cyd: four] [#web: news]")
    for _ in range(6):
        for claimed in await office.claim(batch=1):
            (work,) = claimed.messages
            desk = office.desk(claimed)
            if claimed.agent == "bob":
                await desk.fail(work.message_id, "permanent", "no").take()
            else:
                await desk.say("[#web: more] [@bob: a] -> [@bob: b]", to=work.message_id).ack(work.message_id).take()
    for (dead,) in office.rows("select message_id from messages where state = 5"):
        await office.store.retry(dead)
    for (held,) in office.rows("select message_id from messages where state = 2 limit 1"):
        await office.store.release_held(held)
    clock.advance(10**9)
    await office.claim()
    await office.store.next_timer()
    await office.store.prune(keep_ms=1, require_archive=False)
    tables = r"(j|p|m|r|b|c|joins|join_parts|chat_messages|messages|responses|events|bodies)"
    scans = {
        sql: plan
        for sql, plan in plans.seen.items()
        if re.search(r"\bjoins|join_parts|chat_messages|r\.outbound is not null", sql)
        and (re.search(rf"SCAN {tables}\b(?! USING (COVERING )?INDEX)", plan) or "AUTOMATIC" in plan)
    }
    assert any("join_parts" in sql for sql in plans.seen)
    assert any("chat_messages" in sql for sql in plans.seen)
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
        ("_best", "ready"), ("_ready_queues", "ready"), ("_timers", "timer"), ("soonest", "timer"),
        ("_front", "lane"), ("_busy", "lane"), ("_mark_head", "lane"), ("_members", "claim"),
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


async def test_no_statement_about_budgets_scans_a_table_that_grows(office: Any, plans: Plans, clock: Any) -> None:
    one = Amounts(usd=10_000_000, tokens=1000, runs=1)
    office.store.budget = Budget(agent=one, office=one, trace=one, first=Amounts(usd=1, tokens=1, runs=1))
    (claimed,) = await office.claim()
    await office.store.may_spend(claimed.session)
    await office.store.meter(claimed.session, usd=0.1, tokens=5)
    await office.desk(claimed).say("[@bob: more]").ack(claimed.messages[0].message_id).take()
    await office.store.meter(claimed.session, usd=0.1, tokens=5)
    await office.sent(to="ada")
    assert await office.claim() == []
    question, *_ = await office.store.open_questions()
    await office.store.answer_question(question["questionId"], "allow", by="ann")
    clock.advance(24 * 3_600_000)
    await office.claim()
    await office.store.next_timer()
    assert any("from spending" in sql for sql in plans.seen)
    for sql, plan in plans.seen.items():
        for table in (*GROWING, "questions", "spending"):
            assert not re.search(rf"SCAN {table}(?! USING (COVERING )?INDEX)", plan), f"{sql}\n{plan}"
