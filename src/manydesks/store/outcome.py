"""How a claimed message ends, or does not: completed, back to its lane, dead. Nothing is ever dropped in silence."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from manydesks.domain.failure import Answer, Dead, Failure, FailureClass, RetryPolicy, next_step
from manydesks.domain.loopguard import Limits
from manydesks.domain.prices import NO_PRICES, Prices
from manydesks.domain.states import MessageState
from manydesks.store import budgets
from manydesks.store.accept import MESSAGES
from manydesks.store.endings import message_ended
from manydesks.store.lanes import live_fence
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import ORIGIN, has_handed_off, origin, store_response, withdraw
from manydesks.store.sent import BEGUN, sent_by, tell_next
from manydesks.store.waits import WAIT_MS

RUN_COLUMNS = (
    "id", "session", "agent", "attempt", "message", "fence", "provider", "model", "started_at", "ended_at", "outcome",
    "reason",
)  # fmt: skip
FIND_RUN = f"select {', '.join(RUN_COLUMNS)} from runs where"
#: a run, the fence that is live in its session now, and how many rows of its desk were taken
FIND_CLAIMED = f"""
select {", ".join(RUN_COLUMNS)}, (select c.fence from claims c where c.lane = ?1),
  (select count(*) from responses s where s.run = runs.id and s.outbound is not null)
from runs where session = ?1 and fence = ?2
"""
FIND_MEMBER = f"""
select id, retry_count, queue, lane, {", ".join(ORIGIN)} from messages where message_id = ? and fence = ? and state = 1
"""
END_RUN = f"""
update runs set ended_at = ?, outcome = coalesce(outcome, ?), reason = coalesce(reason, ?)
where id = ? and ended_at is null
returning outcome, reason, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, model,
  {", ".join(budgets.SETTLED)}
"""
#: from here on what it returns is for the budgets
USAGE_END = 8

INTERRUPTED = "interrupted_after_output"
#: the outcome of a run that a person stopped; it is set before the run ends, and stays
STOPPED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the store needs to know to decide; the settings give it."""

    retry: RetryPolicy
    limits: Limits
    rng: random.Random
    #: rows that one run may send; with the next it has failed
    run_messages: int = 200
    #: attempts at one response before it is left to a person
    deliveries: int = 5
    #: how long a step of a chain, or a join, waits for what stands before it
    wait_ms: int = WAIT_MS
    #: what tokens cost, where a provider does not say it
    prices: Prices = NO_PRICES


def find_run(tx: OfficeTransaction, *, session: str, fence: int) -> dict[str, Any] | None:
    """The run of a claim."""
    row = tx.one(f"{FIND_RUN} session = ? and fence = ?", (session, fence))
    return dict(zip(RUN_COLUMNS, row, strict=True)) if row else None


class Claimed(NamedTuple):
    """What is known of a claim of a session."""

    #: None: there never was one under this fence
    run: dict[str, Any] | None
    #: the fence of the session's live claim
    live: int | None
    #: rows of its desk that were taken
    taken: int


def find_claimed(tx: OfficeTransaction, session: str, fence: int) -> Claimed:
    """The run of a claim, and whether it is live: in one statement, as every page of a desk's asks for it."""
    found = tx.one(FIND_CLAIMED, (session, fence))
    if found is None:
        return Claimed(None, live_fence(tx, session), 0)
    *columns, live, taken = found
    return Claimed(dict(zip(RUN_COLUMNS, columns, strict=True)), live, taken)


class Member(NamedTuple):
    """A message under way in a claim, as it was just read."""

    row: int
    retries: int
    queue: str
    lane: str | None
    #: `ORIGIN`
    message: dict[str, Any]

    def ended(self, tx: OfficeTransaction, fence: int, state: MessageState) -> tuple[dict[str, Any], bool]:
        """It ends in `state`: its row then, and whether it was the last of its claim, which is over."""
        over = MESSAGES.close(tx, self.row, fence, state, queue=self.queue, lane=self.lane)
        return {**self.message, "state": int(state)}, over


def find_member(tx: OfficeTransaction, message_id: str, fence: int) -> Member | None:
    found = tx.one(FIND_MEMBER, (message_id, fence))
    if found is None:
        return None
    row, retries, queue, lane, *message = found
    return Member(row, retries, queue, lane, dict(zip(ORIGIN, message, strict=True)))


def complete(tx: OfficeTransaction, run: Mapping[str, Any], member: Member) -> bool:
    """It was answered; its run ends with the last of its claim. True: it has."""
    message, over = member.ended(tx, run["fence"], MessageState.COMPLETED)
    tx.event("message_completed", **_about(message, run), attempt=member.retries + 1)
    message_ended(tx, message, well=True)
    if over:
        end_run(tx, run, "completed", primary=message)
    return over


def cancel(tx: OfficeTransaction, run: Mapping[str, Any], member: Member, reason: str | None) -> bool:
    """Its agent has called it off; its run ends with the last of its claim. True: it has."""
    message, over = member.ended(tx, run["fence"], MessageState.CANCELLED)
    tx.event("message_cancelled", **_about(message, run), reason=reason, actor=message["agent"])
    message_ended(tx, message, well=False, reason=reason or "it was cancelled")
    if over:
        end_run(tx, run, "cancelled", primary=message)
    return over


def fail(
    tx: OfficeTransaction,
    run: Mapping[str, Any],
    message_id: str,
    row: int,
    retries: int,
    failure: Failure,
    rules: Rules,
    *,
    at_once: bool = False,
) -> None:
    """One attempt at one message has failed; the claim is over for it. `at_once`: without the back-off."""
    message = origin(tx, message_id)
    attempt = retries + 1
    out = withdraw(tx, message_id, run["id"], failure.reason) or has_handed_off(tx, message, run["id"])
    decision = next_step(failure, attempt, rules.retry, rules.rng)
    if isinstance(decision, Answer):
        store_response(tx, message, decision.reason, run=run["id"], operation="notice")
        MESSAGES.finish(tx, row, run["fence"], MessageState.COMPLETED)
        tx.event("message_completed", **_about(message, run), attempt=attempt)
        message_ended(tx, message, well=False, reason=decision.reason)
        return
    if isinstance(decision, Dead):
        bury(tx, run, message, row, attempt, failure.kind, decision.reason)
        return
    if out:
        bury(tx, run, message, row, attempt, failure.kind, f"{INTERRUPTED}: {failure.reason}")
        return
    wait = 0 if at_once else decision.delay_ms
    MESSAGES.give_back(tx, row, run["fence"], retry_count=attempt, wait_ms=wait)
    tell_next(tx, row, sent_by(tx, run["id"]))
    tx.run("update messages set last_error = ? where id = ?", (failure.reason, row))
    tx.event("message_retried", **_about(message, run), attempt=attempt, reason=failure.reason,
             next_at=tx.now + wait, **_class(failure.kind))  # fmt: skip


def bury(
    tx: OfficeTransaction,
    run: Mapping[str, Any],
    message: Mapping[str, Any],
    row: int,
    attempt: int,
    kind: FailureClass,
    reason: str,
) -> None:
    """The message is dead: visible, retryable, and its sender is told."""
    MESSAGES.finish(tx, row, run["fence"], MessageState.DEAD)
    tx.run("update messages set retry_count = ?, last_error = ? where id = ?", (attempt, reason, row))
    tx.event("message_dead", **_about(message, run), attempt=attempt, reason=reason, **_class(kind))
    store_response(
        tx,
        message,
        f"{message['agent']} could not answer: {reason} (dead letter {message['message_id']})",
        run=None,
        operation="notice",
    )
    message_ended(tx, message, well=False, reason=reason)


def give_back(tx: OfficeTransaction, run: Mapping[str, Any], reason: str) -> None:
    """What is left of a claim returns to its lane, uncounted; output that is out already cannot be said again."""
    notice = sent_by(tx, run["id"])
    for row, retries in MESSAGES.members(tx, run["fence"]):
        message_id = _message_id(tx, row)
        message = origin(tx, message_id)
        if withdraw(tx, message_id, run["id"], reason) or has_handed_off(tx, message, run["id"]):
            bury(tx, run, message, row, retries + 1, FailureClass.TRANSIENT, f"{INTERRUPTED}: {reason}")
            continue
        MESSAGES.give_back(tx, row, run["fence"], retry_count=retries)
        tell_next(tx, row, notice, BEGUN)
        tx.event("message_returned", **_about(message, run), attempt=retries, reason=reason)
    MESSAGES.end(tx, run["fence"])


def died(
    tx: OfficeTransaction, run: Mapping[str, Any], failure: Failure, rules: Rules, *, at_once: bool = False
) -> None:
    """The run ended as a whole: an attempt for each message it had not answered. None counts if it was stopped."""
    if run["outcome"] == STOPPED:
        give_back(tx, run, str(run["reason"]))
        end_run(tx, run, STOPPED, run["reason"])
        return
    for row, retries in MESSAGES.members(tx, run["fence"]):
        fail(tx, run, _message_id(tx, row), row, retries, failure, rules, at_once=at_once)
    MESSAGES.end(tx, run["fence"])
    end_run(tx, run, "failed", failure.reason)


def end_run(
    tx: OfficeTransaction,
    run: Mapping[str, Any],
    outcome: str,
    reason: str | None = None,
    *,
    primary: Mapping[str, Any] | None = None,
) -> None:
    """Close the run's row; its usage goes to the ledger with it. What was stopped stays so, however it ended.

    `primary`: one of its messages that the caller has at hand; it is read if it is not the one that the run names.
    """
    ended = tx.one(END_RUN, (tx.now, outcome, reason, run["id"]))
    if ended is None:
        return
    outcome, reason, *usage = ended[:USAGE_END]
    if primary is None or primary["message_id"] != run["message"]:
        primary = origin(tx, run["message"])
    about = _about(primary, run)
    tx.event(
        "chain_step_done",
        **about,
        outcome=outcome,
        reason=reason,
        attempt=run["attempt"],
        duration_ms=max(0, tx.now - run["started_at"]),
    )
    fields = ("input", "output", "cache_read", "cache_write", "cost_usd", "model")
    tx.event("run_usage", **about, **dict(zip(fields, usage, strict=True)))
    budgets.settle(tx, ended[USAGE_END:], about)


def _class(kind: FailureClass) -> dict[str, Any]:
    return {"class": kind.value}  # the ledger's word is no name in Python


def _message_id(tx: OfficeTransaction, row: int) -> str:
    found = tx.one("select message_id from messages where id = ?", (row,))
    assert found is not None
    return str(found[0])


def _about(message: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trace": message["trace"],
        "message": message["message_id"],
        "run": run["id"],
        "session": message["session"],
        "agent": message["agent"],
    }
