"""The real store under random spending: no run ever begins beyond a cap, and the books are right after every step."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from manydesks.domain.budget import UNITS, Amounts, Book, Budget
from manydesks.domain.envelope import Claimed, Incoming
from manydesks.domain.failure import Failure, FailureClass, RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound, Step
from manydesks.store.budgets import used
from manydesks.store.database import open_reader
from manydesks.store.outcome import Rules
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

T = TypeVar("T")

AGENTS = ("ada", "bob")
PICK = st.integers(0, 10_000)
#: small, so that caps are reached; 0: none
CAP = st.builds(
    Amounts,
    usd=st.sampled_from([0, 0, 300_000, 1_000_000]),
    tokens=st.sampled_from([0, 0, 300, 1000]),
    runs=st.sampled_from([0, 0, 2, 5]),
)
#: dollars and tokens of a run, each perhaps not known
COST = st.sampled_from([None, 0.0, 0.01, 0.1, 0.25, 5.0, 1e15])
TOKENS = st.sampled_from([None, 0, 10, 100, 250, 10_000, 10**15])
OPEN = "select agent, trace, day, reserved_usd, reserved_tokens, reserved_runs, id from runs where ended_at is null"
ENDED = """
select agent, trace, day, cost_usd, metered_usd, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
  metered_tokens from runs where ended_at is not null
"""
BOOKS = """
select scope, subject, day, spent_usd, spent_tokens, spent_runs, reserved_usd, reserved_tokens, reserved_runs, extra
from spending
"""


class BudgetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="md-machine-")
        self.path = Path(self.folder.name) / "office.db"
        self.clock = ManualClock()
        self.rules = Rules(retry=RetryPolicy(max_attempts=3), limits=Limits(hops=3), rng=random.Random(1))
        self.store = Store(self.path, durability="crash", clock=self.clock)
        self.eyes = open_reader(self.path)
        for agent in AGENTS:
            self.do(self.store.add_agent(id=agent, provider="rehearsal"))
        self.keys = itertools.count(1)
        self.seqs: dict[str, int] = {}
        self.runs: list[Claimed] = []

    def do(self, verb: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(verb)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.eyes.execute(sql, values).fetchall()

    def live(self, pick: int) -> Claimed | None:
        open_runs = {run for (run,) in self.rows("select id from runs where ended_at is null")}
        self.runs = [claimed for claimed in self.runs if claimed.run in open_runs]
        return self.runs[pick % len(self.runs)] if self.runs else None

    # what happens

    @rule(agent=CAP, office=CAP, trace=CAP, first=st.sampled_from([0, 50_000, 400_000]), own=st.booleans())
    def caps_are_set(self, agent: Amounts, office: Amounts, trace: Amounts, first: int, own: bool) -> None:
        self.store.budget = Budget(
            agent=agent, office=office, trace=trace, first=Amounts(usd=first, tokens=first // 1000, runs=1)
        )
        self.do(self.store.edit_agent("ada", {"budget": {"runs": 3} if own else None}))

    @rule(to=st.sampled_from(AGENTS))
    def somebody_writes(self, to: str) -> None:
        incoming = Incoming(
            source="api", key=f"api_{next(self.keys):08d}", text="hi", channel="console", platform_id="x", to=to
        )
        self.do(self.store.accept(incoming, default_agent="ada", message_bytes=1000))

    @rule(batch=st.integers(1, 3), most=st.integers(1, 3))
    def runs_begin(self, batch: int, most: int) -> None:
        begun = self.do(self.store.claim(batch=batch, most=most))
        self.runs += begun
        new = {claimed.run for claimed in begun}
        for book in self.books():
            mine = [row for row in self.rows(OPEN) if row[6] in new and self.counts_in(row, book)]
            for unit, at in zip(UNITS, (3, 4, 5), strict=True):
                # a run that knows nothing of a unit reserves nothing of it, and is not bound by it
                if book.limit(unit) and any(row[at] for row in mine):
                    total = (book.spent.of(unit) or 0) + (book.reserved.of(unit) or 0)
                    assert total <= book.limit(unit), f"{book} began beyond its cap of {unit}"

    @rule(pick=PICK, cost=COST, tokens=TOKENS, how=st.sampled_from(["answer", "answer", "hand off", "fail", "later"]))
    def a_desk_writes(self, pick: int, cost: float | None, tokens: int | None, how: str) -> None:
        claimed = self.live(pick)
        if claimed is None:
            return
        about = {"run": claimed.run, "fence": claimed.fence}
        steps = (Step(seq=self.seq(claimed), run=claimed.run, at=1, type="usage",
                      data={"input": tokens, "output": None, "cost_usd": cost}),)  # fmt: skip
        messages, acks = [], []
        for work in claimed.messages if how != "later" else ():
            other = "bob" if claimed.agent == "ada" else "ada"
            text = f"[@{other}: go on]" if how == "hand off" else "done"
            seq = self.seq(claimed)
            if how != "fail":
                messages.append(Outbound(id=f"out_{seq}", seq=seq, in_reply_to=work.message_id, at=1, kind="chat",
                                         content={"text": text}, **about))  # fmt: skip
            failed = {"status": "failed", "failure": "transient", "reason": "no luck"}
            acks.append(Ack(message=work.message_id, seq=self.seq(claimed), at=1,
                            **(failed if how == "fail" else {"status": "completed"}), **about))  # fmt: skip
        page = Collected(epoch="aa" * 16, last_seq=self.seqs[claimed.session], messages=tuple(messages),
                         acks=tuple(acks), steps=steps)  # fmt: skip
        self.do(self.store.take(claimed.session, page, self.rules))

    @rule(pick=PICK, cost=COST, tokens=TOKENS)
    def the_proxy_sees_a_call(self, pick: int, cost: float | None, tokens: int | None) -> None:
        claimed = self.live(pick)
        if claimed is not None:
            allowed = self.do(self.store.may_spend(claimed.session))
            assert allowed is None or allowed.endswith(".")
            self.do(self.store.meter(claimed.session, usd=cost, tokens=tokens))

    @rule(pick=PICK, died=st.booleans())
    def a_run_ends_early(self, pick: int, died: bool) -> None:
        claimed = self.live(pick)
        if claimed is None:
            return
        if died:
            failure = Failure(kind=FailureClass.TRANSIENT, reason="it died")
            self.do(self.store.run_died(claimed.session, claimed.fence, failure, self.rules))
        else:
            self.do(self.store.run_released(claimed.session, claimed.fence, "closing"))

    @rule()
    def the_host_is_killed(self) -> None:
        budget = self.store.budget
        self.store.close()
        self.store = Store(self.path, durability="crash", clock=self.clock)
        self.store.budget = budget
        self.do(self.store.release(self.rules, {}))

    @rule(pick=PICK, option=st.sampled_from(["allow", "allow", "keep"]))
    def the_owner_answers(self, pick: int, option: str) -> None:
        if asked := self.do(self.store.open_questions()):
            self.do(self.store.answer_question(asked[pick % len(asked)]["questionId"], option, by="ann"))

    @rule(pick=PICK)
    def the_owner_lets_a_message_go_on(self, pick: int) -> None:
        if held := self.rows("select message_id from messages where state = 2 order by id"):
            self.do(self.store.release_held(held[pick % len(held)][0]))

    @rule(agent=st.sampled_from(AGENTS))
    def the_owner_pauses(self, agent: str) -> None:
        self.do(self.store.pause(agent))

    @rule(milliseconds=st.sampled_from([1, 60_000, 8 * 3_600_000, 24 * 3_600_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.do(self.store.extend())

    @rule(milliseconds=st.sampled_from([-24 * 3_600_000, 3_600_000]))
    def the_clock_is_set(self, milliseconds: int) -> None:
        self.clock.jump(milliseconds)

    def seq(self, claimed: Claimed) -> int:
        self.seqs[claimed.session] = self.seqs.get(claimed.session, -1) + 2
        return self.seqs[claimed.session]

    # what always holds

    def books(self) -> list[Book]:
        found = []
        own = dict(self.rows("select id, budget from agents"))
        for scope, subject, day, *row in self.rows(BOOKS):
            budget = self.store.budget
            caps = {"office": budget.office, "trace": budget.trace}
            cap = caps.get(scope) or budget.of_agent(json.loads(own[subject]) if own[subject] else None)
            parts = [Amounts(**dict(zip(UNITS, row[at : at + 3], strict=True))) for at in (0, 3)]
            found.append(
                Book(scope=scope, subject=subject, day=day, cap=cap, spent=parts[0], reserved=parts[1], extra=row[6])
            )
        return found

    @staticmethod
    def counts_in(row: tuple[Any, ...], book: Book) -> bool:
        agent, trace, day = row[:3]
        if book.scope == "trace":
            return bool(trace == book.subject)
        return bool(day == book.day) and book.subject in ("", agent)

    @invariant()
    def the_books_are_right(self) -> None:
        under_way, ended = self.rows(OPEN), self.rows(ENDED)
        books = self.books()
        if ended:
            assert {book.scope for book in books} == {"agent", "office", "trace"}
        for book in books:
            reserved = [sum(row[at] for row in under_way if self.counts_in(row, book)) for at in (3, 4, 5)]
            assert [book.reserved.of(unit) for unit in UNITS] == reserved, book
            mine = [used(row[3:]) for row in ended if self.counts_in(row, book)]
            spent = [sum(usd or 0 for usd, _ in mine), sum(tokens or 0 for _, tokens in mine), len(mine)]
            assert [book.spent.of(unit) for unit in UNITS] == [min(n, 9 * 10**18) for n in spent], book

    @invariant()
    def pauses_have_reasons_and_questions_are_asked_once(self) -> None:
        assert self.rows("select id from agents where (paused >= 2) <> (pause_reason is not null)") == []
        assert self.rows("select id from agents where (paused >= 2) <> (pause_until is not null)") == []
        twice = "select about from questions where state = 0 group by about having count(*) > 1"
        assert self.rows(twice) == []
        assert self.rows("select h.seq from ledger_head h where seq <> (select count(*) from events)") == []

    def teardown(self) -> None:
        try:
            self.everything_ends()
        finally:
            self.eyes.close()
            self.store.close()
            self.loop.close()
            self.folder.cleanup()

    def everything_ends(self) -> None:
        """Without caps all that waited is worked on, and nothing stays reserved."""
        self.store.budget = Budget()
        self.do(self.store.edit_agent("ada", {"budget": None}))
        self.the_host_is_killed()
        self.do(self.store.claim(batch=1, most=0))
        for agent in AGENTS:
            self.do(self.store.resume(agent))
        for _ in range(500):
            begun = self.do(self.store.claim(batch=3, most=3))
            self.runs += begun
            for number in range(len(begun)):
                self.a_desk_writes(len(self.runs) - 1 - number, None, None, "answer")
            if not self.rows("select 1 from messages where state <= 1"):
                break
            self.clock.advance(max(0, self.do(self.store.next_timer()) or 0))
        assert self.rows("select message_id from messages where state <= 1") == []
        held = "select message_id from messages where state = 2 and hold_reason not in ('budget', 'loop_guard')"
        assert self.rows(held) == []
        self.the_books_are_right()
        assert self.rows("select scope from spending where reserved_usd + reserved_tokens + reserved_runs <> 0") == []


SMALL = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def test_budgets() -> None:
    run_state_machine_as_test(BudgetMachine, settings=SMALL)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_budgets_deep() -> None:
    run_state_machine_as_test(BudgetMachine, settings=settings(SMALL, max_examples=2_000, derandomize=False))
