"""T4: a response is claimed, sent piece by piece, and settled by what the channel said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Parcel, Progress
from manydesks.domain.loopguard import Limits
from manydesks.domain.states import ResponseState
from manydesks.store.bodies import TEXT
from manydesks.store.claim import LEASE_MS
from manydesks.store.lanes import SWEEP
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import PARCEL_COLUMNS, RESPONSES
from manydesks.store.undelivered import tell_agent

#: why a response is held: its channel is not there
CHANNEL = "channel"
NOTHING: Mapping[str, Any] = MappingProxyType({})

#: age counts from the moment that a response was stored, or a person sent it again
AGE_FROM = "coalesce(renewed_at, created_at)"
HEAD = "select id from responses where queue = ? and ready = 1 order by priority desc, position limit 1"
HELD = "select id from responses where queue = ? and state = 2 and hold_reason = ? order by position limit ?"
OLD_HELD = f"select id from responses where queue = ? and state = 2 and {AGE_FROM} < ? order by position limit ?"
HELD_QUEUES = "select min(queue) from responses where state = 2 and queue > ?"
OLD_READY = f"select id from responses where queue = ? and ready = 1 and {AGE_FROM} < ? limit ?"
#: ?1: the steady moment. Whether a timer is due, something is held, and the first and the last queue in which something
#: may be claimed
LOOK = """
select exists (select 1 from responses where ready = 2 and not_before <= ?1),
  exists (select 1 from responses where state = 2 and queue > ''),
  (select min(queue) from responses where ready = 1), (select max(queue) from responses where ready = 1)
"""
ABOUT = "select trace, message_id, agent, session from responses where id = ?"
#: a sending that is under way
SENDING = """
select queue, lane, retry_count, receipts, trace, message_id, agent, session from responses
where id = ? and fence = ? and state = 1
"""
#: how the row says what became of it; what was there before stays where nothing is given
SAID = """
update responses set acked_at = coalesce(?, acked_at), receipts = coalesce(?, receipts), last_error = ?, retry_count = ?
where id = ?
"""
_AGE = tuple(PARCEL_COLUMNS.index(column) for column in ("renewed_at", "created_at"))


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What became of one sending: exactly one of these is set."""

    #: the channel's receipt for the last piece: all of it has arrived
    receipt: str | None = None
    #: the sending failed, nothing more arrived; try again after this many milliseconds
    retry_in_ms: int | None = None
    #: it can never arrive
    dead: bool = False
    #: nobody knows whether it arrived
    unsure: bool = False
    #: nobody knows, and nobody wants to: it is not sent again
    dropped: bool = False
    reason: str | None = None

    def __post_init__(self) -> None:
        said = (self.receipt is not None, self.retry_in_ms is not None, self.dead, self.unsure, self.dropped)
        if sum(said) != 1:
            raise ValueError("A delivery has exactly one of receipt, retry_in_ms, dead, unsure and dropped.")


def claim_parcels(
    tx: OfficeTransaction,
    channels: Sequence[str],
    *,
    worker: str,
    most: int,
    room: Mapping[str, int] = NOTHING,
    max_age_ms: Mapping[str, int] = NOTHING,
    there: Sequence[str] | None = None,
    why: Mapping[str, str] = NOTHING,
) -> list[Parcel]:
    """Up to `most` responses, each the next of its conversation, in order; other channels' responses wait.

    `room`: how many of one channel; `max_age_ms`: what is older expires instead. What was held because one of these
    channels was not there is let go on first. `there`, `why`: as for `hold_missing`; None: nothing is held.
    """
    ((timers, held, first, last),) = tx.all(LOOK, (tx.steady,))
    if timers:
        RESPONSES.wake(tx)
    elif first is None and not held:
        return []
    if there is not None and (timers or first != last or first not in there):
        hold_missing(tx, there, why)
    parcels: list[Parcel] = []
    for queue in channels:
        if held and release_held(tx, queue):
            continue  # some are held still, and stand before those that are not
        left = min(room.get(queue, most), most - len(parcels))
        parcels += _claim_line(tx, queue, worker=worker, most=left, max_age_ms=max_age_ms.get(queue))
    return parcels


def _claim_line(tx: OfficeTransaction, queue: str, *, worker: str, most: int, max_age_ms: int | None) -> list[Parcel]:
    parcels: list[Parcel] = []
    while len(parcels) < most:
        found = RESPONSES.best(tx, queue, most - len(parcels))
        expired = False
        for best in found:
            if max_age_ms is not None and _is_old(tx, best.row.values, max_age_ms):
                # whoever stood behind it may be claimed now
                expired = True
                _expire(tx, best.row.id, max_age_ms)
                continue
            taken = RESPONSES.claim(tx, queue, worker=worker, lease_ms=LEASE_MS, best=best)
            assert taken is not None
            row = taken.rows[0]
            parcels.append(_parcel(tx, row.id, taken.fence, row.retry_count + 1, row.values))
        if not expired:
            break
    return parcels


def _parcel(tx: OfficeTransaction, id: int, fence: int, attempt: int, values: tuple[Any, ...]) -> Parcel:
    value = dict(zip(PARCEL_COLUMNS, values, strict=True))
    metadata = json.loads(value["metadata"]) if value["metadata"] else {}
    files = json.loads(value["files"]) if value["files"] else []
    return Parcel(
        id=id,
        fence=fence,
        message_id=value["message_id"],
        part=value["part"],
        attempt=attempt,
        channel=value["channel"],
        instance=value["instance"],
        platform_id=value["platform_id"],
        thread=value["thread_id"],
        sender=value["sender"],
        agent=value["agent"],
        operation=value["operation"],
        text=value[TEXT] or "",
        created_at=value["created_at"],
        files=tuple(Attachment.of(file) for file in files),
        metadata=metadata,
        target=_target(tx, metadata.get("target", {})),
        receipts=tuple(json.loads(value["receipts"])) if value["receipts"] else (),
        progress=Progress(**json.loads(value["progress"])) if value["progress"] else Progress(),
    )


def _target(tx: OfficeTransaction, about: Mapping[str, Any]) -> str | None:
    """The platform's id of the row that an edit or a reaction is about, as far as the platform gave one."""
    if not about:
        return None
    if "response" in about:
        row = tx.one("select receipts from responses where id = ?", (about["response"],))
        return str(json.loads(row[0])[0]) if row and row[0] else None
    row = tx.one("select platform_message_id from messages where message_id = ?", (about.get("message"),))
    return row[0] if row else None


def piece_sent(tx: OfficeTransaction, id: int, fence: int, receipt: str, progress: Progress) -> bool:
    """A piece is out, and never sent again; others follow. False: the claim is no longer ours, and nothing changed."""
    row = tx.one("select receipts from responses where id = ? and fence = ? and state = 1", (id, fence))
    if row is None:
        return False
    tx.run(
        "update responses set receipts = ?, progress = ? where id = ?",
        (_with(row[0], receipt), json.dumps(progress.as_json()), id),
    )
    return True


def settle_parcel(
    tx: OfficeTransaction, id: int, fence: int, delivery: Delivery, *, limits: Limits | None = None
) -> bool:
    """The end of a sending. False: the claim is no longer ours, and nothing changed."""
    row = tx.one(SENDING, (id, fence))
    if row is None:
        return False
    queue, lane, retries, receipts, *names = row
    attempt = retries + 1
    about = {**_named(id, names), "attempt": attempt}
    acked: tuple[int | None, str | None] = (None, None)
    if delivery.receipt is not None:
        RESPONSES.close(tx, id, fence, ResponseState.ACKED, queue=queue, lane=lane)
        acked = tx.now, _with(receipts, delivery.receipt)
        tx.event("response_delivered", **about, receipt=delivery.receipt)
    elif delivery.retry_in_ms is not None:
        next_at = tx.now + delivery.retry_in_ms
        RESPONSES.give_back(tx, id, fence, retry_count=attempt, wait_ms=delivery.retry_in_ms)
        RESPONSES.end(tx, fence)
        tx.event("response_retried", **about, reason=delivery.reason, next_at=next_at)
    elif delivery.dead:
        RESPONSES.close(tx, id, fence, ResponseState.DEAD, queue=queue, lane=lane)
        tx.event("response_dead", **about, reason=delivery.reason)
        tell_agent(tx, id, delivery.reason or "no reason is known", limits or Limits())
    else:
        RESPONSES.close(tx, id, fence, ResponseState.UNSURE, queue=queue, lane=lane)
        tx.event("response_unsure", **about, reason=delivery.reason)
        if delivery.dropped:
            RESPONSES.remove(tx, id, ResponseState.WITHDRAWN)
            tx.event("response_withdrawn", **_about(tx, id), reason=delivery.reason)
    tx.run(SAID, (*acked, delivery.reason, attempt, id))
    return True


def hold_missing(tx: OfficeTransaction, there: Sequence[str], why: Mapping[str, str] = NOTHING) -> int:
    """What is due for a channel that is not among those `there` is held, with the reason, until the channel comes up.

    How many, up to a bound; they keep their places in their conversations. `why`: by channel, what is known of it.
    """
    held = 0
    for queue in RESPONSES.ready_queues(tx):
        if queue in there:
            continue
        reason = why.get(queue) or f"there is no channel '{queue}' in this office"
        while held < SWEEP and (head := tx.one(HEAD, (queue,))) is not None:
            held += 1
            RESPONSES.remove(tx, head[0], ResponseState.HELD)
            set_reason = "update responses set hold_reason = ?, last_error = ? where id = ?"
            tx.run(set_reason, (CHANNEL, reason, head[0]))
            tx.event("response_held", **_about(tx, head[0]), reason=reason)
    return held


def release_held(tx: OfficeTransaction, queue: str) -> bool:
    """The channel is there: what was held for it takes its old place. True: that were not all of them."""
    rows = tx.all(HELD, (queue, CHANNEL, SWEEP))
    for (id,) in rows:
        tx.run("update responses set hold_reason = null, last_error = null where id = ?", (id,))
        RESPONSES.back(tx, id)
        tx.event("response_released", **_about(tx, id), reason="its channel is there")
    return len(rows) == SWEEP


def expire(tx: OfficeTransaction, max_age_ms: Mapping[str, int], default_ms: int) -> int:
    """What has waited too long expires, up to a bound: what is held, and what nobody fetches. How many."""
    gone = 0
    queues: list[str] = []
    while (row := tx.one(HELD_QUEUES, (queues[-1] if queues else "",))) and row[0] is not None:
        queues.append(row[0])
    for sql, names in ((OLD_HELD, queues), (OLD_READY, list(max_age_ms))):
        for queue in names:
            age = max_age_ms.get(queue, default_ms)
            for (id,) in tx.all(sql, (queue, _now(tx) - age, SWEEP)):
                gone += 1
                _expire(tx, id, age)
    return gone


def _is_old(tx: OfficeTransaction, values: Sequence[Any], max_age_ms: int) -> bool:
    """`values`: its `PARCEL_COLUMNS`."""
    renewed_at, created_at = (values[place] for place in _AGE)
    return bool((created_at if renewed_at is None else renewed_at) < _now(tx) - max_age_ms)


def _expire(tx: OfficeTransaction, id: int, max_age_ms: int) -> None:
    reason = f"it was not delivered within {max_age_ms / 3_600_000:g} hours"
    RESPONSES.remove(tx, id, ResponseState.EXPIRED)
    tx.run("update responses set hold_reason = null, last_error = ? where id = ?", (reason, id))
    tx.event("response_expired", **_about(tx, id), reason=reason)


def _now(tx: OfficeTransaction) -> int:
    """Whichever clock is behind: one that was set forward makes nothing old."""
    return min(tx.now, tx.steady)


def _with(receipts: str | None, one: str) -> str:
    return json.dumps([*(json.loads(receipts) if receipts else ()), one], ensure_ascii=False)


def _about(tx: OfficeTransaction, id: int) -> dict[str, Any]:
    row = tx.one(ABOUT, (id,))
    assert row is not None
    return _named(id, row)


def _named(id: int, row: Sequence[Any]) -> dict[str, Any]:
    return {**dict(zip(("trace", "message", "agent", "session"), row, strict=True)), "response": id}
