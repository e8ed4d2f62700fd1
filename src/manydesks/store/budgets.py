"""Budgets: a run begins only if there is room for it, reserves what it needs, and is settled when it ends.

The sums of each scope and day are rows of `spending`, kept in the same transactions as the runs they count: nothing is
ever added up again. No room for an agent or the office pauses the agent; no room for a trace holds its message, since
the agent may well work for others. Runs that are under way may still need all that they have reserved: whoever only
waits for that is neither paused nor held, and looked at again when one of them ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manydesks.domain.budget import (
    HOLD_REASON,
    MOST,
    NOTHING,
    SAMPLE,
    Amounts,
    Book,
    Budget,
    Go,
    Over,
    Unit,
    Wait,
    day_ends,
    day_of,
    decide,
    expected,
    left,
    micros,
    shown,
)
from manydesks.domain.states import MessageState
from manydesks.store.accept import MESSAGES
from manydesks.store.asking import ask_owner, tell_place, withdraw_questions
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.spending import BOOK, RESERVE, SETTLE, about_of, book_of, first_word
from manydesks.store.waits import may_begin

#: as an actor, in the ledger
ACTOR = "budget"
#: the bit of `agents.paused` that is the budget's
PAUSED = 2

#: the last runs that say something about the next one: those that failed before they used anything do not
LAST_RUNS = """
select cost_usd, metered_usd, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, metered_tokens
from runs where agent = ? and ended_at is not null
  and (outcome = 'completed' or coalesce(input_tokens, output_tokens, cost_usd, metered_tokens) is not null)
order by ended_at desc limit ?
"""
#: the row that a claim of this queue would take
HEAD = (
    "select id, message_id, trace from messages where queue = ? and ready = 1 order by priority desc, position limit 1"
)
OPEN_RUN = """
select r.id, r.agent, r.day, r.trace, r.reserved_usd, r.reserved_tokens, r.cost_usd, r.metered_usd, r.input_tokens,
  r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.metered_tokens
from runs r join claims c on c.lane = r.session and c.fence = r.fence where r.session = ? and r.ended_at is null
"""
METER = """
update runs set metered_usd = case when ?1 is null then metered_usd else min(coalesce(metered_usd, 0) + ?1, ?4) end,
  metered_tokens = case when ?2 is null then metered_tokens else min(coalesce(metered_tokens, 0) + ?2, ?4) end
where id = (select r.id from runs r join claims c on c.lane = r.session and c.fence = r.fence
  where r.session = ?3 and r.ended_at is null)
"""
#: when the next pause of a budget may be over
NEXT = "select min(pause_until) from agents where paused >= 2"
#: what `settle` needs to know of a run
SETTLED = (
    "agent", "day", "trace", "reserved_usd", "reserved_tokens", "reserved_runs", "cost_usd", "metered_usd",
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "metered_tokens",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Admission:
    """A run may begin."""

    day: str
    reserve: Amounts = NOTHING
    #: the scopes that it is reserved in; none: nothing is capped
    books: tuple[Book, ...] = ()


def admit(tx: OfficeTransaction, agent: str, budget: Budget, *, own: Mapping[str, Any] | None) -> Admission | None:
    """Whether the agent's next run may begin; None: not now. It is paused then, or its message held, if no end of
    another run would help. `own`: the budget on the agent's card."""
    day = day_of(tx.now, budget.time_zone)
    of_agent = budget.of_agent(own)
    if not (of_agent.any or budget.office.any or budget.trace.any):
        return Admission(day=day)
    wanted = expected(last_runs(tx, agent), budget.first)
    shared = (book_of(tx, "agent", agent, day, of_agent), book_of(tx, "office", "", day, budget.office))
    while (head := tx.one(HEAD, (agent,))) is not None:
        row, message_id, trace = head
        books = (*shared, book_of(tx, "trace", trace, "", budget.trace))
        match decide(books, wanted):
            case Go(reserve=reserve):
                return Admission(day=day, reserve=reserve, books=books)
            case Wait():
                return None
            case Over(book=book) as over if book.scope == "trace":
                _hold(tx, row, message_id, over)
            case over:
                _pause(tx, agent, over, until=day_ends(tx.now, budget.time_zone))
                tell_place(tx, message_id, f"{agent} is paused, so this waits: {over.reason}")
                return None
    return None


def reserve(tx: OfficeTransaction, admission: Admission, about: dict[str, Any]) -> None:
    """The run has begun. `about`: what its events name."""
    kept = admission.reserve
    for book in admission.books:
        tx.run(RESERVE, (book.scope, book.subject, book.day, kept.usd, kept.tokens, kept.runs))
    if admission.books:
        tx.event("budget_reserved", **about, day=admission.day, usd=_dollars(kept.usd), tokens=kept.tokens,
                 runs=kept.runs)  # fmt: skip


def settle(tx: OfficeTransaction, ended: Sequence[Any], about: dict[str, Any]) -> None:
    """The run has ended, however it did: what it used takes the place of what it had reserved.

    `ended`: the columns `SETTLED` of its row.
    """
    agent, day, trace, *reserved = ended[:6]
    if day is None:
        return  # it began before there were budgets
    usd, tokens = used(ended[6:])
    scopes = (("agent", agent, day), ("office", "", day), ("trace", trace or about["trace"], ""))
    tx.many(SETTLE, [(*scope, usd or 0, tokens or 0, *reserved) for scope in scopes])
    if reserved[2]:
        tx.event("budget_settled", **about, day=day, usd=_dollars(usd), tokens=tokens, runs=1)


def lift(tx: OfficeTransaction, budget: Budget) -> None:
    """Agents that were paused by a budget and have room again go on: a new day, a higher cap, an answer."""
    for agent, paused in tx.all("select id, paused from agents where paused >= 2 and removed_at is null"):
        day = day_of(tx.now, budget.time_zone)
        of_agent = budget.of_agent(_own(tx, agent))
        books = (book_of(tx, "agent", agent, day, of_agent), book_of(tx, "office", "", day, budget.office))
        if not isinstance(decide(books, expected(last_runs(tx, agent), budget.first)), Over):
            tx.run("update agents set paused = paused & 1, pause_reason = null, pause_until = null, updated_at = ? "
                   "where id = ?", (tx.now, agent))  # fmt: skip
            if paused == PAUSED:
                tx.event("agent_resumed", agent=agent, actor=ACTOR)
                may_begin(tx, agent)
            for book in books:
                withdraw_questions(tx, about_of(book), "there is room again")


def may_spend(tx: OfficeTransaction, session: str, budget: Budget) -> str | None:
    """Why the run that this session has under way may not call a model again; None: it may."""
    run = tx.one(OPEN_RUN, (session,))
    if run is None:
        return _may_spend_idle(tx, session, budget)
    _, agent, day, trace, reserved_usd, reserved_tokens, *rest = run
    usd, tokens = used(rest)
    books = (
        book_of(tx, "agent", agent, day or "", budget.of_agent(_own(tx, agent))),
        book_of(tx, "office", "", day or "", budget.office),
        book_of(tx, "trace", trace or "", "", budget.trace),
    )
    own: Sequence[tuple[Unit, int, int | None]] = (("usd", reserved_usd, usd), ("tokens", reserved_tokens, tokens))
    for book in books:
        for unit, kept, so_far in own:
            most = left(book, unit, kept)
            if most is not None and so_far is not None and so_far >= most:
                limit = shown(unit, book.limit(unit))
                whose = {"agent": f"{agent}'s budget for the day", "office": "the office's budget for the day",
                         "trace": "the budget of all that follows from this message"}[book.scope]  # fmt: skip
                return f"This run has used {shown(unit, so_far)}, and no more is left of {whose}, {limit}."
    return None


def _may_spend_idle(tx: OfficeTransaction, session: str, budget: Budget) -> str | None:
    """A program that stays warm may call between two runs: within what nobody has reserved."""
    agent, day = _whose(tx, session), day_of(tx.now, budget.time_zone)
    if agent is None:
        return None
    books = (
        book_of(tx, "agent", agent, day, budget.of_agent(_own(tx, agent))),
        book_of(tx, "office", "", day, budget.office),
    )
    units: tuple[Unit, ...] = ("usd", "tokens")
    if any((most := left(book, unit, 0)) is not None and most <= 0 for book in books for unit in units):
        return f"{agent} has no run under way, and nothing is left of the day's budget."
    return None


def meter(tx: OfficeTransaction, session: str, usd: float | None, tokens: int | None, budget: Budget) -> None:
    """The office's proxy has seen a call of this session: it is its run's, or, between two runs, its agent's."""
    cost, counted = micros(usd), None if tokens is None else min(tokens, MOST)
    tx.run(METER, (cost, counted, session, MOST))
    if tx.db.changes() or (agent := _whose(tx, session)) is None:
        return
    day = day_of(tx.now, budget.time_zone)
    for scope, subject in (("agent", agent), ("office", "")):
        tx.run(BOOK, (scope, subject, day, cost or 0, counted or 0))


def _whose(tx: OfficeTransaction, session: str) -> str | None:
    row = tx.one("select agent from sessions where id = ?", (session,))
    return row[0] if row else None


def last_runs(tx: OfficeTransaction, agent: str) -> list[tuple[int | None, int | None]]:
    """(millionths of a dollar, tokens) of the agent's last runs; None: not known."""
    return [used(row) for row in tx.all(LAST_RUNS, (agent, SAMPLE))]


def used(row: Sequence[Any]) -> tuple[int | None, int | None]:
    """What a run has used: by the desk's word or the proxy's count, whichever is more."""
    cost, metered_usd, read, written, from_cache, to_cache, metered_tokens = row
    said = None if read is None and written is None else sum(n or 0 for n in (read, written, from_cache, to_cache))
    return _larger(micros(cost), metered_usd), _larger(None if said is None else min(said, MOST), metered_tokens)


def _larger(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _own(tx: OfficeTransaction, agent: str) -> dict[str, Any] | None:
    row = tx.one("select budget from agents where id = ?", (agent,))
    return json.loads(row[0]) if row and row[0] else None


def _pause(tx: OfficeTransaction, agent: str, over: Over, *, until: int) -> None:
    """The agent begins no more runs until there is room; the owner is asked, once for each cap that is reached."""
    tx.run("update agents set paused = paused | 2, pause_reason = ?, pause_until = ?, updated_at = ? where id = ?",
           (over.reason, until, tx.now, agent))  # fmt: skip
    tx.event("agent_paused", agent=agent, actor=ACTOR, reason=over.reason)
    _exceeded(tx, over, agent=agent)
    if first_word(tx, over.book):
        ask_owner(tx, agent, over.reason, about=about_of(over.book), expires_at=until)


def _hold(tx: OfficeTransaction, row: int, message_id: str, over: Over) -> None:
    """The message waits outside its lane until the owner lets it go on, which allows its trace as much again."""
    MESSAGES.remove(tx, row, MessageState.HELD)
    tx.run("update messages set hold_reason = ?, last_error = ? where id = ?", (HOLD_REASON, over.reason, row))
    found = tx.one("select session, agent from messages where id = ?", (row,))
    session, agent = found if found else (None, None)
    trace = over.book.subject
    tx.event("message_held", trace=trace, message=message_id, session=session, agent=agent, reason=HOLD_REASON,
             detail=over.reason)  # fmt: skip
    _exceeded(tx, over, trace=trace, message=message_id, agent=agent)
    if first_word(tx, over.book):
        tell_place(tx, message_id, f"{agent} did not begin: {over.reason} `manydesks queue release {message_id}` "
                   "allows as much again.")  # fmt: skip


def _exceeded(tx: OfficeTransaction, over: Over, **about: Any) -> None:
    book, unit = over.book, over.unit
    tx.event(
        "budget_exceeded",
        **about,
        scope=book.scope,
        subject=book.subject,
        day=book.day,
        unit=unit,
        amount=_plain(unit, over.amount),
        spent=_plain(unit, book.spent.of(unit) or 0),
        cap=_plain(unit, book.limit(unit)),
    )


def _dollars(value: int | None) -> float | None:
    return None if value is None else value / 1_000_000


def _plain(unit: Unit, value: int) -> float | int:
    return value / 1_000_000 if unit == "usd" else value
