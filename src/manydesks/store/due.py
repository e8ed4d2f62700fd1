"""What has come due, and when the next thing will: one statement each, since they are asked after every commit."""

from __future__ import annotations

from typing import NamedTuple

from manydesks.domain.budget import Budget
from manydesks.store import budgets, delays, questions, release, waits
from manydesks.store.accept import MESSAGES
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import RESPONSES

#: ?1: the wall clock's moment, ?2: the steady one
LOOK = """
select exists (select 1 from questions where state = 0 and expires_at <= ?1),
  exists (select 1 from joins where ended_at is null and deadline <= ?2),
  exists (select 1 from agents where paused >= 2),
  exists (select 1 from messages where ready = 2 and not_before <= ?2),
  exists (select 1 from messages where ready = 1)
"""
#: by the steady clock, and by the wall clock
STEADY, WALL = (MESSAGES.soonest, RESPONSES.soonest, waits.NEXT), (questions.NEXT, budgets.NEXT)
NEXT = f"select {', '.join(f'({soonest})' for soonest in (*STEADY, *WALL))}"


class _Due(NamedTuple):
    questions: int
    joins: int
    #: agents that a budget has paused
    paused: int
    timers: int
    #: messages that may be claimed
    ready: int


def see_to(tx: OfficeTransaction, budget: Budget) -> bool:
    """Everything that a moment brings has happened; whether a message may be claimed."""
    due = _Due(*tx.all(LOOK, (tx.now, tx.steady))[0])
    if due.questions:
        questions.expire(tx)
    if due.joins:
        release.expire(tx)
    if due.paused:
        budgets.lift(tx, budget)
    if due.timers:
        delays.release_due(tx, MESSAGES)
        MESSAGES.wake(tx)
    return any(due)


def next_timer(tx: OfficeTransaction) -> int | None:
    """In how many milliseconds the next waiting row becomes due; 0 or below: it is."""
    found = tx.all(NEXT)[0]
    steady, wall = found[: len(STEADY)], found[len(STEADY) :]
    timers = [moment - tx.steady for moment in steady if moment is not None]
    timers += [moment - tx.now for moment in wall if moment is not None]
    return min(timers, default=None)
