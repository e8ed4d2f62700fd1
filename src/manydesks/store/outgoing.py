"""Responses that somebody deals with by hand or by polling: fetched and acknowledged, sent again, given up."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from manydesks.domain.errors import UnknownResponse, WrongState
from manydesks.domain.states import ResponseState, word
from manydesks.store import bodies
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import RESPONSES

R = ResponseState

#: as a reader names them, with the columns they are
COLUMNS = {
    "id": "r.id",
    "status": "r.status",
    "channel": "r.channel",
    "instance": "r.instance",
    "platformId": "r.platform_id",
    "sender": "r.sender",
    "senderId": "r.sender_id",
    "agent": "r.agent",
    "messageId": "r.message_id",
    "traceId": "r.trace",
    "operation": "r.operation",
    "attempts": "r.retry_count",
    "reason": "r.last_error",
    "createdAt": "r.created_at",
    "updatedAt": "r.updated_at",
    "ackedAt": "r.acked_at",
    "receipts": "r.receipts",
    "files": "r.files",
    "metadata": "r.metadata",
    "text": bodies.shown("b"),
    "originalText": bodies.shown("o"),
}
FROM = "from responses r join bodies b on b.id = r.body left join bodies o on o.id = r.original_body"
SELECT = f"select {', '.join(COLUMNS.values())} {FROM}"

#: what waits for a person, or for a channel, has an index for each state; the rest is most of the table
FOUND_BY = {
    R.PENDING: ("responses_lane", "state <= 1 and state = 0"),
    R.SENDING: ("responses_claim", "state = 1"),
    R.HELD: ("responses_held", "state = 2"),
    R.UNSURE: ("responses_unsure", "state = 3"),
    R.DEAD: ("responses_dead", "state = 6"),
    R.EXPIRED: ("responses_expired", "state = 7"),
}
#: what a person has to look at
TROUBLE = (R.HELD, R.UNSURE, R.DEAD, R.EXPIRED)

#: for a client that fetches by itself; also what waits for a channel that this office does not have
WAITING = f"""
{SELECT} where r.id in (
  select id from responses indexed by responses_lane
  where state <= 1 and state = 0 and channel = ?1 and (?2 is null or instance = ?2) and id > ?3
  union all
  select id from responses indexed by responses_held
  where state = 2 and channel = ?1 and (?2 is null or instance = ?2) and id > ?3
) order by r.id limit ?4
"""


FORGOTTEN = "select 1 from responses r join bodies b on b.id = r.body where r.id = ? and b.erased_at is not null"


def listing(
    states: Collection[ResponseState], channel: str | None, after: int, limit: int
) -> tuple[str, Sequence[Any]]:
    """The statement for one page of responses, oldest first, and its values."""
    parts = []
    for state in states:
        index, which = FOUND_BY.get(state, ("", f"state = {int(state)}"))
        where = f"{f' indexed by {index}' if index else ''} where {which} and id > ?1 and (?2 is null or channel = ?2)"
        parts.append(f"select id from (select id from responses{where} order by id limit ?3)")
    return f"{SELECT} where r.id in ({' union all '.join(parts)}) order by r.id limit ?3", (after, channel, limit)


def newest(state: ResponseState | None, channel: str | None, before: int, limit: int) -> tuple[str, Sequence[Any]]:
    """The statement for one page of responses, newest first, and its values."""
    values, order = (before, channel, limit), "order by r.id desc limit ?3"
    if state is None:
        return f"{SELECT} where r.id < ?1 and (?2 is null or r.channel = ?2) {order}", values
    index, which = FOUND_BY.get(state, ("", f"state = {int(state)}"))
    where = f"{f' indexed by {index}' if index else ''} where {which} and id < ?1 and (?2 is null or channel = ?2)"
    few = f"select id from (select id from responses{where} order by id desc limit ?3)"
    return f"{SELECT} where r.id in ({few}) {order}", values


def shown(row: Sequence[Any]) -> dict[str, Any]:
    """A row of `SELECT` as readers have it."""
    value = dict(zip(COLUMNS, row, strict=True))
    metadata = json.loads(value["metadata"] or "{}")
    return {
        **value,
        "receipts": json.loads(value["receipts"] or "[]"),
        "files": json.loads(value["files"] or "[]"),
        "metadata": metadata,
        "questionId": metadata.get("question", {}).get("id"),
    }


def fetch(
    tx: OfficeTransaction, channel: str, *, limit: int, instance: str | None = None, after: int = 0
) -> list[dict[str, Any]]:
    """What waits for the clients of a channel, oldest first. Each comes again, to whoever asks, until it is
    acknowledged."""
    found = [shown(row) for row in tx.all(WAITING, (channel, instance, after, limit))]
    ids = json.dumps([response["id"] for response in found])
    tx.run(
        "update responses set given_at = ? where given_at is null and id in (select value from json_each(?))",
        (tx.now, ids),
    )
    return found


def acknowledge(tx: OfficeTransaction, id: int) -> bool:
    """A client has it. False: that was known. One that nobody can have, or that is being sent, is refused."""
    state, about, attempt = _find(tx, id)
    if state is R.ACKED:
        return False
    allowed = {R.PENDING: "a pending", R.HELD: "held", R.UNSURE: "unsure", R.DEAD: "dead", R.EXPIRED: "expired one"}
    _check(id, state, "acknowledged", allowed)
    RESPONSES.remove(tx, id, R.ACKED)
    tx.run("update responses set acked_at = ?, hold_reason = null, last_error = null where id = ?", (tx.now, id))
    tx.event("response_delivered", **about, attempt=attempt, receipt="acknowledged")
    return True


def resend(tx: OfficeTransaction, id: int, *, actor: str = "owner") -> None:
    """Attempts anew, at the end of its conversation; pieces that are out for sure are not sent again."""
    state, about, _ = _find(tx, id)
    _check(id, state, "sent again", {R.DEAD: "a dead", R.UNSURE: "an unsure", R.EXPIRED: "an expired one"})
    if tx.one(FORGOTTEN, (id,)) is not None:
        raise WrongState(f"The text of the response {id} was forgotten, so there is nothing to send.")
    tx.run("update responses set retry_count = 0, last_error = null, renewed_at = ? where id = ?", (tx.now, id))
    RESPONSES.enter(tx, id)
    tx.event("response_released", **about, reason="sent again", actor=actor, before=word(state))


def drop(tx: OfficeTransaction, id: int, *, actor: str = "owner") -> None:
    """It is not sent, or not again: it leaves the list, not the table."""
    state, about, _ = _find(tx, id)
    allowed = {R.PENDING: "a pending", R.HELD: "a held", R.UNSURE: "an unsure", R.DEAD: "a dead"}
    _check(id, state, "dropped", {**allowed, R.EXPIRED: "an expired one"})
    RESPONSES.remove(tx, id, R.WITHDRAWN)
    tx.run("update responses set hold_reason = null where id = ?", (id,))
    tx.event("response_withdrawn", **about, reason="dropped", actor=actor)


def _find(tx: OfficeTransaction, id: int) -> tuple[ResponseState, dict[str, Any], int]:
    row = tx.one("select state, retry_count, trace, message_id, agent, session from responses where id = ?", (id,))
    if row is None:
        raise UnknownResponse(response=id)
    state, attempt, *about = row
    names = ("trace", "message", "agent", "session")
    return ResponseState(state), {**dict(zip(names, about, strict=True)), "response": id}, attempt


def _check(id: int, state: ResponseState, act: str, allowed: Mapping[ResponseState, str]) -> None:
    if state not in allowed:
        *most, last = allowed.values()
        words = f"{', '.join(most)} or {last}"
        raise WrongState(what=f"The response {id}", status=word(state), allowed=words, act=act)
