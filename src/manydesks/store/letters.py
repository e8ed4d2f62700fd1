"""Messages that a person deals with: dead or held ones are tried again, let go on or dropped."""

from __future__ import annotations

from collections.abc import Mapping

from manydesks.domain.budget import HOLD_REASON
from manydesks.domain.errors import UnknownMessage, WrongState
from manydesks.domain.states import MessageState, word
from manydesks.store import release as waiting
from manydesks.store.accept import MESSAGES
from manydesks.store.agents import get_agent
from manydesks.store.endings import message_ended
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import origin
from manydesks.store.retention import free_body
from manydesks.store.spending import allow_trace_again

FORGOTTEN = "select 1 from messages m join bodies b on b.id = m.body where m.id = ? and b.erased_at is not null"


def retry(tx: OfficeTransaction, message_id: str, *, text: str | None = None, actor: str = "owner") -> None:
    """The same message to the same agent, attempts anew, at the end of its lane; `text`, checked, edits it first."""
    row, agent, trace = _waiting(tx, message_id, "retried", {MessageState.DEAD: "a dead one"})
    get_agent(tx, agent)
    body = None
    if text is not None:
        body = tx.body(text)
        before = tx.one("select body from messages where id = ?", (row,))
        tx.run("update messages set body = ? where id = ?", (body, row))
        # of a text that was edited before, the event about it may be gone already
        free_body(tx, before[0] if before else None)
    elif tx.one(FORGOTTEN, (row,)) is not None:
        raise WrongState(f"The text of the message '{message_id}' was forgotten; give it a new one: --message TEXT.")
    tx.run("update messages set retry_count = 0, last_error = null where id = ?", (row,))
    tx.event("message_requeued", trace=trace, message=message_id, agent=agent, body=body, actor=actor,
             edited=text is not None)  # fmt: skip
    waiting.revived(tx, message_id)
    MESSAGES.enter(tx, row)


def release(tx: OfficeTransaction, message_id: str, *, actor: str = "owner") -> str:
    """A held message goes on, at the end of its lane; one that waits for others does so with what there is.

    Its status: one that the loop guard held may have others to wait for now.
    """
    row, agent, trace = _waiting(tx, message_id, "released", {MessageState.HELD: "a held one"})
    get_agent(tx, agent)
    if waiting.let_go(tx, message_id, actor=actor):
        return word(MessageState(origin(tx, message_id)["state"]))
    held = tx.one("select hold_reason from messages where id = ?", (row,))
    if held is not None and held[0] == HOLD_REASON:
        # or it would be held again at once
        allow_trace_again(tx, trace)
    tx.run("update messages set hold_reason = null, last_error = null where id = ?", (row,))
    MESSAGES.enter(tx, row)
    tx.event("message_released", trace=trace, message=message_id, agent=agent, actor=actor)
    waiting.its_turn(tx, message_id)
    return word(MessageState.PENDING)


def drop(tx: OfficeTransaction, message_id: str, *, actor: str = "owner") -> None:
    """A dead or held message becomes cancelled: it leaves the list, not the table."""
    allowed = {MessageState.DEAD: "a dead", MessageState.HELD: "a held one"}
    row, agent, trace = _waiting(tx, message_id, "dropped", allowed)
    MESSAGES.remove(tx, row, MessageState.CANCELLED)
    tx.event("message_cancelled", trace=trace, message=message_id, agent=agent, reason="dropped", actor=actor)
    message_ended(tx, origin(tx, message_id), well=False, reason="it was dropped")


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
        raise WrongState(what=f"The message '{message_id}'", status=status, allowed=states, act=act)
    return row, agent, trace
