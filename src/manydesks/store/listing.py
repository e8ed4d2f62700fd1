"""Lists of messages, oldest first, page by page: each with the index that finds its rows."""

from __future__ import annotations

from typing import Any

from manydesks.domain.states import MessageState
from manydesks.store.bodies import shown

#: as a reader names them, with the columns they are
COLUMNS = {
    "id": "m.id",
    "messageId": "m.message_id",
    "agent": "m.agent",
    "sender": "coalesce(m.from_agent, m.sender)",
    "status": "m.status",
    # runs begun: also those that did not count against it
    "attempts": "(select count(*) from run_messages where message = m.message_id)",
    "reason": "coalesce(m.hold_reason, m.last_error)",
    "createdAt": "m.created_at",
    "updatedAt": "m.updated_at",
    "text": shown("b"),
}
LISTED = tuple(COLUMNS)

#: what moves is found through the lanes, what waits for a person has indexes of its own; the rest is most of the table
FOUND_BY = {
    MessageState.PENDING: ("messages_lane", "state <= 1 and state = 0"),
    MessageState.PROCESSING: ("messages_claim", "state = 1"),
    MessageState.HELD: ("messages_held", "state = 2"),
    MessageState.DEAD: ("messages_dead", "state = 5"),
}

#: those before a row in its lane, the one that will be next first; the lane's index has them in order
WAITS_FOR = """
select message_id, status, coalesce(from_agent, sender) from messages
where lane = ? and state <= 1 and position < ? order by position limit ?
"""
HOW_MANY_WAIT = "select count(*) from messages where lane = ? and state <= 1 and position < ?"


def listing(*, agent: str | None, state: MessageState | None, after: int, limit: int) -> tuple[str, tuple[Any, ...]]:
    """The statement for one page, and its values."""
    values: list[Any] = [after]
    where, index = "id > ?", ""
    if state in FOUND_BY:
        name, which = FOUND_BY[state]
        index, where = f" indexed by {name}", f"{which} and {where}"
    elif state is not None:
        where += f" and state = {int(state)}"
    if agent is not None:
        where += " and agent = ?"
        values.append(agent)
    page = f"select id from messages{index} where {where} order by id limit ?"
    columns = ", ".join(COLUMNS.values())
    sql = (
        f"select {columns} from ({page}) p join messages m on m.id = p.id join bodies b on b.id = m.body order by m.id"
    )
    return sql, (*values, limit)
