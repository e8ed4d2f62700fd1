"""Dead letters: given new attempts, or dropped; by hand only."""

from __future__ import annotations

from manydesks.domain.errors import UnknownMessage, WrongState
from manydesks.domain.states import MessageState, word
from manydesks.store.accept import MESSAGES
from manydesks.store.agents import get_agent
from manydesks.store.transaction import Transaction


def retry(tx: Transaction, message_id: str, *, text: str | None = None, actor: str = "owner") -> None:
    """The same message to the same agent, attempts anew, at the end of its lane; `text`, checked, edits it first."""
    row, agent, trace = _dead(tx, message_id, "retried")
    get_agent(tx, agent)
    if text is not None:
        tx.run("update messages set body = ? where id = ?", (tx.body(text), row))
    tx.run("update messages set retry_count = 0, last_error = null where id = ?", (row,))
    MESSAGES.enter(tx, row)
    tx.event("message_requeued", trace=trace, message=message_id, agent=agent, actor=actor, edited=text is not None)


def drop(tx: Transaction, message_id: str, *, actor: str = "owner") -> None:
    """A dead message becomes cancelled: it leaves the list, not the table."""
    row, agent, trace = _dead(tx, message_id, "dropped")
    MESSAGES.remove(tx, row, MessageState.CANCELLED)
    tx.event("message_cancelled", trace=trace, message=message_id, agent=agent, reason="dropped", actor=actor)


def _dead(tx: Transaction, message_id: str, act: str) -> tuple[int, str, str]:
    found = tx.one("select id, agent, trace, state from messages where message_id = ?", (message_id,))
    if found is None:
        raise UnknownMessage(message=message_id)
    row, agent, trace, state = found
    if state != MessageState.DEAD:
        status = word(MessageState(state))
        raise WrongState(what=f"The message '{message_id}'", status=status, allowed="a dead one", act=act)
    return row, agent, trace
