"""Conversations and sessions: where people talk, and an agent's thread of work."""

from __future__ import annotations

from manydesks.domain.envelope import Incoming
from manydesks.store.ledger import OfficeTransaction

FIND_SESSION = "select id from sessions where agent = ? and conversation = ? and thread = ? and status = 'active'"


def open_conversation(tx: OfficeTransaction, incoming: Incoming) -> str:
    """The id of one that was not there before."""
    id = tx.fresh_id("conversation", "conversations")
    row = {
        "id": id,
        "channel": incoming.channel,
        "instance": incoming.instance,
        "platform_id": incoming.platform_id,
        "kind": incoming.conversation_kind,
        "created_at": tx.now,
    }
    tx.insert("conversations", row)
    tx.event("conversation_added", after=row)
    return id


def set_default(tx: OfficeTransaction, id: str, before: str | None, after: str | None, actor: str) -> None:
    tx.run("update conversations set default_agent = ? where id = ?", (after, id))
    tx.event(
        "conversation_changed",
        agent=after,
        before={"id": id, "default_agent": before},
        after={"id": id, "default_agent": after},
        actor=actor,
    )


def session(tx: OfficeTransaction, agent: str, *, conversation: str = "", thread: str = "", mode: str = "agent") -> str:
    """The agent's active session for a place; opened when there is none. Mode `agent`: one for all places."""
    found = tx.one(FIND_SESSION, (agent, conversation, thread))
    if found is not None:
        return str(found[0])
    last = tx.one(
        "select max(generation) from sessions where agent = ? and conversation = ? and thread = ?",
        (agent, conversation, thread),
    )
    generation = (last[0] or 0) + 1 if last else 1
    id = tx.fresh_id("session", "sessions")
    tx.insert(
        "sessions",
        {
            "id": id,
            "agent": agent,
            "conversation": conversation,
            "thread": thread,
            "generation": generation,
            "mode": mode,
            "status": "active",
            "last_active": tx.now,
            "created_at": tx.now,
        },
    )
    tx.event("session_opened", session=id, agent=agent, generation=generation, mode=mode)
    return id
