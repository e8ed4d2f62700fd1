"""Lists for surfaces, page by page: each statement with the index that finds its rows, and the names readers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from manydesks.store.bodies import shown


class Page(NamedTuple):
    """A statement, and as readers name them its columns."""

    names: tuple[str, ...]
    sql: str

    def rows(self, found: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        return [dict(zip(self.names, row, strict=True)) for row in found]


def _page(columns: Mapping[str, str], rest: str) -> Page:
    return Page(tuple(columns), f"select {', '.join(columns.values())} {rest}")


LETTER = {
    "id": "m.id",
    "messageId": "m.message_id",
    "agent": "m.agent",
    "channel": "m.channel",
    "sender": "m.sender",
    "senderId": "m.sender_id",
    "fromAgent": "m.from_agent",
    "message": shown("b"),
    "traceId": "m.trace",
    "createdAt": "m.created_at",
    "updatedAt": "m.updated_at",
}
#: `?1`: above this number, `?2`: of this agent or of all, `?3`: so many
DEAD = _page(
    {**LETTER, "reason": "m.last_error", "attempts": "m.retry_count"},
    "from messages m indexed by messages_dead join bodies b on b.id = m.body "
    "where m.state = 5 and m.id > ?1 and (?2 is null or m.agent = ?2) order by m.id limit ?3",
)
HELD = _page(
    {
        **LETTER,
        "reason": "m.hold_reason",
        "ref": "m.hold_ref",
        "until": "m.hold_until",
        "detail": "m.last_error",
    },
    "from messages m indexed by messages_held join bodies b on b.id = m.body "
    "where m.state = 2 and m.id > ?1 and (?2 is null or m.agent = ?2) order by m.id limit ?3",
)
PROCESSING = _page(
    {
        "id": "m.id",
        "messageId": "m.message_id",
        "agent": "m.agent",
        "sessionId": "m.session",
        "runId": "r.id",
        "startedAt": "r.started_at",
    },
    "from messages m indexed by messages_claim "
    "left join runs r on r.session = m.session and r.fence = m.fence "
    "where m.state = 1 and m.id > ?1 and (?2 is null or m.agent = ?2) order by m.id limit ?3",
)
#: of each agent that is here, also of one without work
AGENTS = Page(
    ("agent", "pending", "processing", "held"),
    "select a.id, "
    + ", ".join(
        f"coalesce((select n from counters where scope = 'messages' and agent = a.id and state = {state}), 0)"
        for state in (0, 1, 2)
    )
    + " from agents a where a.removed_at is null order by a.id",
)
SESSION = {
    "number": "s.rowid",
    "id": "s.id",
    "agent": "s.agent",
    "conversation": "s.conversation",
    "thread": "s.thread",
    "generation": "s.generation",
    "mode": "s.mode",
    "status": "s.status",
    "lastActive": "s.last_active",
    "createdAt": "s.created_at",
}
SESSIONS = _page(
    SESSION, "from sessions s where s.rowid > ?1 and (?2 is null or s.agent = ?2) order by s.rowid limit ?3"
)
ONE_SESSION = _page(SESSION, "from sessions s where s.id = ?")
RUNS = Page(
    ("id", "messageId", "attempt", "outcome", "reason", "startedAt", "endedAt", "provider", "model",
     "inputTokens", "outputTokens", "costUsd"),
    "select id, message, attempt, outcome, reason, started_at, ended_at, provider, model, input_tokens, output_tokens, "
    "cost_usd from runs where session = ? order by fence desc limit ?",
)  # fmt: skip
#: the last so many above a number, newest first
HISTORY = Page(
    ("id", "role", "channel", "sender", "messageId", "message", "createdAt"),
    f"select a.id, a.role, a.channel, a.sender, a.message_id, {shown('b')}, a.created_at "
    "from agent_messages a join bodies b on b.id = a.body where a.agent_id = ? and a.id > ? order by a.id desc limit ?",
)
#: a message of a state, by its number or its id; the number, which lists show, goes first
FIND = """
select message_id from messages where state = ?1
    and (message_id = ?2 or (id = ?3 and not exists (select 1 from messages where message_id = ?2)))
"""
EXISTS = "select 1 from messages where message_id = ?1 or id = ?2 limit 1"
POST_OF = "select max(id) from chat_messages where team_id = ? and trace = ?"
EXCHANGE = (
    "select channel, sender, sender_id, thread_id, not_before, priority, updated_at from messages where message_id = ?"
)
