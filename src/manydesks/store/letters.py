"""Messages that a person deals with: dead or held ones are tried again, let go on, dropped; waiting ones cancelled."""

from __future__ import annotations

from collections.abc import Mapping

from manydesks.domain.errors import UnknownMessage, WrongState
from manydesks.domain.states import MessageState, word
from manydesks.store.accept import MESSAGES
from manydesks.store.agents import get_agent
from manydesks.store.endings import message_ended
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import origin


def retry(tx: OfficeTransaction, message_id: str, *, text: str | None = None, actor: str = "owner") -> None:
    """The same message to the same agent, attempts anew, at the end of its lane; `text`, checked, edits it first."""
    row, agent, trace = _waiting(tx, message_id, "retried", {MessageState.DEAD: "a dead one"})
    get_agent(tx, agent)
    if text is not None:
        tx.run("update messages set body = ? where id = ?", (tx.body(text), row))
    tx.run("update messages set retry_count = 0, last_error = null where id = ?", (row,))
    MESSAGES.enter(tx, row)
    tx.event("message_requeued", trace=trace, message=message_id, agent=agent, actor=actor, edited=text is not None)


def release(tx: OfficeTransaction, message_id: str, *, actor: str = "owner") -> None:
    """A held message goes on, at the end of its lane."""
    row, agent, trace = _waiting(tx, message_id, "released", {MessageState.HELD: "a held one"})
    get_agent(tx, agent)
    tx.run("update messages set hold_reason = null, last_error = null where id = ?", (row,))
    MESSAGES.enter(tx, row)
    tx.event("message_released", trace=trace, message=message_id, agent=agent, actor=actor)


def drop(tx: OfficeTransaction, message_id: str, *, actor: str = "owner") -> None:
    """A dead or held message becomes cancelled: it leaves the list, not the table."""
    allowed = {MessageState.DEAD: "a dead", MessageState.HELD: "a held one"}
    row, agent, trace = _waiting(tx, message_id, "dropped", allowed)
    MESSAGES.remove(tx, row, MessageState.CANCELLED)
    tx.event("message_cancelled", trace=trace, message=message_id, agent=agent, reason="dropped", actor=actor)
    message_ended(tx, origin(tx, message_id), well=False, reason="it was dropped")


def cancel(tx: OfficeTransaction, message_id: str, *, actor: str = "owner") -> None:
    """A message that has not begun never will; whoever stood behind it in its lane moves up."""
    allowed = {MessageState.PENDING: "a pending", MessageState.HELD: "a held one"}
    row, agent, trace = _waiting(tx, message_id, "cancelled", allowed)
    MESSAGES.remove(tx, row, MessageState.CANCELLED)
    tx.event("message_cancelled", trace=trace, message=message_id, agent=agent, reason="cancelled", actor=actor)
    message_ended(tx, origin(tx, message_id), well=False, reason="it was cancelled")


def _waiting(
    tx: OfficeTransaction, message_id: str, act: str, allowed: Mapping[MessageState, str]
) -> tuple[int, str, str]:
    found = tx.one("select id, agent, trace, state from messages where message_id = ?", (message_id,))
    if found is None:
        raise UnknownMessage(message=message_id)
    row, agent, trace, state = found
    if state not in allowed:
        status, states = word(MessageState(state)), " or ".join(allowed.values())
        if state == MessageState.PROCESSING:
            status = "processing: it runs at this moment"
        refusal = WrongState(what=f"The message '{message_id}'", status=status, allowed=states, act=act)
        if state == MessageState.DEAD and act == "cancelled":
            raise WrongState(f"{refusal} `manydesks queue drop {message_id}` gives up a dead one.")
        raise refusal
    return row, agent, trace
