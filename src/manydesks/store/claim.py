"""T2: the due messages of a lane become a claim and a run. It commits before anything reaches the desk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from manydesks.domain.attachment import Attachment
from manydesks.domain.budget import NO_BUDGET, Budget
from manydesks.domain.caps import Caps
from manydesks.domain.envelope import Claimed, Work
from manydesks.domain.turns import Able, Turns
from manydesks.store import budgets
from manydesks.store.accept import MESSAGES, WORK_COLUMNS
from manydesks.store.agents import get_agent
from manydesks.store.bodies import TEXT
from manydesks.store.lanes import CLAIMED, PENDING, Row
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.pausing import is_paused

LEASE_MS = 60_000

_TAKEN = ", ".join(("id", "position", "retry_count", *WORK_COLUMNS))
_ROW = f"select {_TAKEN} from messages where message_id = ?"
#: the pending rows of a lane, oldest first; `state <= 1` is the condition of the index
_WAITING = f"""
select not_before, {_TAKEN} from messages
where lane = ? and state <= 1 and state = 0 order by position limit ?"""
_TAKE = "update messages set state = 1, ready = 0, fence = ?, updated_at = ? where id = ?"
#: Runs under way; the claims of responses have other lanes. `cross`: from the claims, which are few, to the runs.
_RUNNING = """
select r.agent, r.provider, count(*) from claims c cross join runs r on r.session = c.lane and r.fence = c.fence
group by r.agent, r.provider"""
_MAY_BEGIN = "select provider, concurrency from agents where id = ? and paused = 0 and removed_at is null"
#: the run of a claim that is not over and not being stopped, of an agent that is not paused
_LIVE_RUN = """
select r.id, r.agent, r.message from runs r
join claims c on c.lane = r.session and c.fence = r.fence
join agents a on a.id = r.agent
where r.session = ?1 and r.fence = ?2 and r.ended_at is null and r.outcome is null
  and a.paused = 0 and a.removed_at is null"""

_AT = {column: place for place, column in enumerate(WORK_COLUMNS)}
_REPLY_ADDRESS = tuple(_AT[column] for column in ("channel", "instance", "platform_id", "thread_id", "sender_id"))


def claim(
    tx: OfficeTransaction,
    *,
    worker: str,
    batch: int,
    most: int,
    max_attempts: int,
    caps: Caps | None = None,
    turns: Turns | None = None,
    budget: Budget = NO_BUDGET,
) -> list[Claimed]:
    """Begin up to `most` runs: fairly between agents (`turns`), within the `caps` of providers and the `budget`."""
    ready = MESSAGES.ready_queues(tx)
    if not ready or most < 1 or is_paused(tx):
        return []
    caps, turns = caps or Caps(), turns or Turns()
    # a message whose next failure is its last must not take its neighbours' attempts along
    alone = min(2, max_attempts - 1)
    able, busy = _able(tx, ready)
    able = [one for one in able if one.running < one.concurrency and busy.get(one.provider, 0) < caps.of(one.provider)]
    begun: list[Claimed] = []
    while able and len(begun) < most:
        one = turns.next(able)
        claimed = begin(tx, one.agent, worker=worker, batch=batch, alone_after=alone, budget=budget)
        if claimed is None:
            able.remove(one)
            continue
        turns.took(one.agent)
        one.running += 1
        if one.running >= one.concurrency:
            able.remove(one)
        busy[one.provider] = busy.get(one.provider, 0) + 1
        if busy[one.provider] >= caps.of(one.provider):
            able = [other for other in able if other.provider != one.provider]
        begun.append(claimed)
    return begun


def _able(tx: OfficeTransaction, ready: Sequence[str]) -> tuple[list[Able], dict[str, int]]:
    """Of these agents those that are not paused, in the same order; and how many runs each provider has under way."""
    running: dict[str, int] = {}
    busy: dict[str, int] = {}
    for agent, provider, n in tx.all(_RUNNING):
        running[agent] = running.get(agent, 0) + n
        busy[provider] = busy.get(provider, 0) + n
    able = []
    for agent in ready:
        card = tx.one(_MAY_BEGIN, (agent,))
        if card is not None:
            provider, concurrency = card
            able.append(Able(agent=agent, provider=provider, concurrency=concurrency, running=running.get(agent, 0)))
    return able, busy


def begin(
    tx: OfficeTransaction, agent: str, *, worker: str, batch: int, alone_after: int, budget: Budget = NO_BUDGET
) -> Claimed | None:
    """One run of one agent, if there is room for it in the budget: the due messages of its best lane that share a reply
    address, oldest first."""
    card = get_agent(tx, agent)
    admission = budgets.admit(tx, agent, budget, own=card["budget"])
    if admission is None:
        return None
    together = same_trace if budget.trace.any else same_address
    taken = MESSAGES.claim(
        tx, agent, worker=worker, lease_ms=LEASE_MS, limit=batch, alone_after=alone_after, together=together
    )
    if taken is None:
        return None
    messages = tuple(_work(row) for row in taken.rows)
    primary, session = messages[0], taken.rows[0].values[_AT["session"]]
    run = tx.fresh_id("run", "runs")
    tx.insert(
        "runs",
        {
            "id": run,
            "session": session,
            "agent": agent,
            "attempt": primary.attempt,
            "message": primary.message_id,
            "fence": taken.fence,
            "provider": card["provider"],
            "model": card["model"],
            "started_at": tx.now,
            "day": admission.day,
            "trace": primary.trace,
            "reserved_usd": admission.reserve.usd,
            "reserved_tokens": admission.reserve.tokens,
            "reserved_runs": admission.reserve.runs,
        },
    )
    left = tx.one("update sessions set last_active = ? where id = ? returning continuation", (tx.now, session))
    for row, work in zip(taken.rows, messages, strict=True):
        _join(tx, run, row, work, agent=agent, session=session, fence=taken.fence, batch=len(messages))
    tx.event(
        "chain_step_start",
        trace=primary.trace,
        message=primary.message_id,
        run=run,
        session=session,
        agent=agent,
        provider=card["provider"],
        model=card["model"],
        attempt=primary.attempt,
    )
    about = {"trace": primary.trace, "message": primary.message_id, "run": run, "session": session, "agent": agent}
    budgets.reserve(tx, admission, about)
    return Claimed(
        fence=taken.fence,
        run=run,
        session=session,
        agent=agent,
        agent_name=card["name"],
        provider=card["provider"],
        model=card["model"],
        sandbox=card["sandbox"],
        options=card["options"],
        continuation=left[0] if left else None,
        messages=messages,
    )


def claim_more(
    tx: OfficeTransaction, session: str, fence: int, *, batch: int, alone_after: int, budget: Budget = NO_BUDGET
) -> tuple[str, tuple[Work, ...]] | None:
    """Messages that have come since join a live claim, up to `batch` in all: its run and they, oldest first.

    None: nothing may join. The first that cannot (not due, another reply address, a later attempt) keeps those behind
    it out as well, so the lane's order stays. A claim that runs one message alone takes no other, nor does an agent
    that is paused, an office that is, or a run that is being stopped.
    """
    run = tx.one(_LIVE_RUN, (session, fence))
    if run is None or is_paused(tx):
        return None
    run_id, agent, primary_id = run
    members = MESSAGES.members(tx, fence)
    if any(retries >= alone_after for _, retries in members):
        return None
    first = tx.one(_ROW, (primary_id,))
    joined = tx.one("select count(*) from run_messages where run = ?", (run_id,))
    if first is None or joined is None or joined[0] >= batch:
        return None
    primary, together = _row(first), same_trace if budget.trace.any else same_address
    rows: list[Row] = []
    for not_before, *found in tx.all(_WAITING, (session, batch - joined[0])):
        row = _row(found)
        due = not_before is None or not_before <= tx.steady
        if not due or row.retry_count >= alone_after or not together(primary, row):
            break
        rows.append(row)
    if not rows:
        return None
    messages = tuple(_work(row) for row in rows)
    for row, work in zip(rows, messages, strict=True):
        tx.run(_TAKE, (fence, tx.now, row.id))
        _join(tx, run_id, row, work, agent=agent, session=session, fence=fence, batch=joined[0] + len(rows))
    tx.count(MESSAGES.scope, agent, PENDING, CLAIMED, len(rows))
    return run_id, messages


def _join(
    tx: OfficeTransaction, run: str, row: Row, work: Work, *, agent: str, session: str, fence: int, batch: int
) -> None:
    """A claimed message is part of a run."""
    tx.insert("run_messages", {"run": run, "message": work.message_id})
    tx.run("update messages set run = ? where id = ?", (run, work.row))
    tx.event(
        "message_received",
        trace=work.trace,
        message=work.message_id,
        run=run,
        session=session,
        agent=agent,
        fence=fence,
        attempt=work.attempt,
        batch=batch,
        # the last change of a row that waits: it was stored, let go, given back, or its back-off ended
        queue_ms=max(0, tx.now - max(row.values[_AT["updated_at"]], row.values[_AT["not_before"]] or 0)),
    )


def _row(found: Sequence[Any]) -> Row:
    return Row(found[0], found[1], found[2], tuple(found[3:]))


def same_address(first: Row, other: Row) -> bool:
    """One run answers one place: batches never mix reply addresses."""
    return all(first.values[place] == other.values[place] for place in _REPLY_ADDRESS)


def same_trace(first: Row, other: Row) -> bool:
    """With a cap on traces a run is booked to one of them."""
    return same_address(first, other) and first.values[_AT["trace"]] == other.values[_AT["trace"]]


def _work(row: Row) -> Work:
    value = dict(zip(WORK_COLUMNS, row.values, strict=True))
    return Work(
        row=row.id,
        message_id=value["message_id"],
        trace=value["trace"],
        hop=value["hop"],
        kind=value["kind"],
        attempt=row.retry_count + 1,
        text=value[TEXT] or "",
        sender=value["sender"],
        sender_id=value["sender_id"],
        from_agent=value["from_agent"],
        channel=value["channel"],
        created_at=value["created_at"],
        content=json.loads(value["content"]) if value["content"] else None,
        files=tuple(Attachment.of(file) for file in json.loads(value["files"])) if value["files"] else (),
    )
