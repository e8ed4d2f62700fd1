"""`send_to_agent`: work for another agent, whose answer goes to the person and back to the agent who asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.loopguard import Limits
from manydesks.domain.routing import Target
from manydesks.store.directory import directory
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.notices import tell
from manydesks.store.respond import hand_off
from manydesks.store.said import said

ACTION = "send_to_agent"

BEFORE = "select 1 from messages where trace = ? and parent = ? and from_run = ? and outbound = ?"


def send(
    tx: OfficeTransaction,
    run: Mapping[str, Any],
    message: Mapping[str, Any],
    payload: Mapping[str, Any],
    limits: Limits,
    *,
    out_id: str,
) -> str | None:
    """Hand the work over, or tell the asking agent why not. Else the word for a row that changes nothing."""
    name, text = payload.get("agent"), payload.get("text")
    if not isinstance(name, str) or not isinstance(text, str) or not text.strip():
        return "unreadable message"
    if tx.one(BEFORE, (message["trace"], message["message_id"], run["id"], out_id)) is not None:
        return "repeated message"
    people = directory(tx)
    found = people.find(name)
    if found is not None and people.may_address(message["agent"], found[0]):
        target = Target(agent=found[0], team=found[1], text=text, by="hand-off")
        hand_off(tx, message, target, limits, run=run["id"], asker=message["agent"], outbound=out_id)
        return None
    if found is None:
        near = people.nearest(name)
        why = f"There is no agent '{name[:60]}'" + (f"; did you mean '{near}'?" if near else ".")
    else:
        why = "You cannot send work to yourself." if found[0] == message["agent"] else f"You share no team with {name}."
    # an agent that tries again and again is stopped as one that is answered again and again
    (stored,) = tx.one("select count(*) from messages where trace = ?", (message["trace"],)) or (0,)
    if message["hop"] >= limits.hops or stored >= limits.per_trace:
        return "refused message"
    content = {"action": ACTION, "status": "refused", "agent": name[:60], "result": f"Nothing was sent. {why}"}
    tell(tx, message, message["agent"], content, hop=message["hop"] + 1)
    return None


def message_ended(tx: OfficeTransaction, message: Mapping[str, Any], *, well: bool, reason: str) -> None:
    """The agent that asked is told the answer, or that there is none; each asking is answered once."""
    asker = message["asker"]
    if asker is None:
        return
    agent = message["agent"]
    if well:
        text = said(tx, message["message_id"]).text or "(nothing)"
        content = {"action": ACTION, "status": "answered", "agent": agent, "text": text, "result": f"@{agent}: {text}"}
    else:
        content = {"action": ACTION, "status": "failed", "agent": agent, "result": f"@{agent} did not answer: {reason}"}
    # no guard of its own: each asking passed one, and this counts for the next
    tell(tx, message, asker, content, from_agent=agent, hop=message["hop"] + 1)
    tx.run("update messages set asker = null where message_id = ?", (message["message_id"],))
