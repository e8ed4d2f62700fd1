"""T2: the due messages of a lane become a claim and a run. It commits before anything reaches the desk."""

from __future__ import annotations

from manydesks.domain.envelope import Claimed, Work
from manydesks.store.accept import MESSAGES, WORK_COLUMNS
from manydesks.store.agents import claimable, get_agent
from manydesks.store.lanes import Row
from manydesks.store.ledger import OfficeTransaction

LEASE_MS = 60_000

_AT = {column: place for place, column in enumerate(WORK_COLUMNS)}
_REPLY_ADDRESS = tuple(_AT[column] for column in ("channel", "instance", "platform_id", "thread_id", "sender_id"))


def claim(tx: OfficeTransaction, *, worker: str, batch: int, most: int, max_attempts: int) -> list[Claimed]:
    """Begin up to `most` runs, fairly: one for each agent that has work and room, then a second one, and so on."""
    MESSAGES.wake(tx)
    # a message whose next failure is its last must not take its neighbours' attempts along
    alone = min(2, max_attempts - 1)
    begun: list[Claimed] = []
    while len(begun) < most:
        able = claimable(tx, MESSAGES.ready_queues(tx))
        round_of = [
            begin(tx, agent, worker=worker, batch=batch, alone_after=alone) for agent, _ in able[: most - len(begun)]
        ]
        fresh = [claimed for claimed in round_of if claimed is not None]
        if not fresh:
            break
        begun += fresh
    return begun


def begin(tx: OfficeTransaction, agent: str, *, worker: str, batch: int, alone_after: int) -> Claimed | None:
    """One run of one agent: the due messages of its best lane that share a reply address, oldest first."""
    taken = MESSAGES.claim(
        tx, agent, worker=worker, lease_ms=LEASE_MS, limit=batch, alone_after=alone_after, together=same_address
    )
    if taken is None:
        return None
    card = get_agent(tx, agent)
    messages = tuple(_work(tx, row) for row in taken.rows)
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
        },
    )
    tx.run("update sessions set last_active = ? where id = ?", (tx.now, session))
    for row, work in zip(taken.rows, messages, strict=True):
        tx.insert("run_messages", {"run": run, "message": work.message_id})
        tx.run("update messages set run = ? where id = ?", (run, work.row))
        tx.event(
            "message_received",
            trace=work.trace,
            message=work.message_id,
            run=run,
            session=session,
            agent=agent,
            fence=taken.fence,
            attempt=work.attempt,
            batch=len(messages),
            queue_ms=max(0, tx.now - max(work.created_at, row.values[_AT["not_before"]] or 0)),
        )
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
    return Claimed(
        fence=taken.fence,
        run=run,
        session=session,
        agent=agent,
        agent_name=card["name"],
        provider=card["provider"],
        model=card["model"],
        sandbox=card["sandbox"],
        messages=messages,
    )


def same_address(first: Row, other: Row) -> bool:
    """One run answers one place: batches never mix reply addresses."""
    return all(first.values[place] == other.values[place] for place in _REPLY_ADDRESS)


def _work(tx: OfficeTransaction, row: Row) -> Work:
    value = dict(zip(WORK_COLUMNS, row.values, strict=True))
    text = tx.one("select text from bodies where id = ?", (value["body"],))
    return Work(
        row=row.id,
        message_id=value["message_id"],
        trace=value["trace"],
        hop=value["hop"],
        kind=value["kind"],
        attempt=row.retry_count + 1,
        text=text[0] if text else "",
        sender=value["sender"],
        sender_id=value["sender_id"],
        from_agent=value["from_agent"],
        channel=value["channel"],
        created_at=value["created_at"],
    )
