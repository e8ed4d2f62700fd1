"""T4: a response is claimed, sent, and settled by what the channel said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Parcel
from manydesks.domain.states import ResponseState
from manydesks.store.claim import LEASE_MS
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import PARCEL_COLUMNS, RESPONSES


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What became of one sending: exactly one of these is set."""

    receipt: str | None = None
    #: the sending failed, nothing arrived; try again after this many milliseconds
    retry_in_ms: int | None = None
    #: it can never arrive
    dead: bool = False
    #: nobody knows whether it arrived
    unsure: bool = False
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.receipt is not None) + (self.retry_in_ms is not None) + self.dead + self.unsure != 1:
            raise ValueError("A delivery has exactly one of receipt, retry_in_ms, dead and unsure.")


def claim_parcels(tx: OfficeTransaction, channels: list[str], *, worker: str, most: int) -> list[Parcel]:
    """Up to `most` responses, each the next of its conversation, in order; other channels' responses wait."""
    RESPONSES.wake(tx)
    parcels: list[Parcel] = []
    for channel in channels:
        while len(parcels) < most:
            taken = RESPONSES.claim(tx, channel, worker=worker, lease_ms=LEASE_MS)
            if taken is None:
                break
            row = taken.rows[0]
            value = dict(zip(PARCEL_COLUMNS, row.values, strict=True))
            text = tx.one("select text from bodies where id = ?", (value["body"],))
            metadata = json.loads(value["metadata"]) if value["metadata"] else {}
            files = json.loads(value["files"]) if value["files"] else []
            parcels.append(
                Parcel(
                    id=row.id,
                    fence=taken.fence,
                    message_id=value["message_id"],
                    part=value["part"],
                    attempt=row.retry_count + 1,
                    channel=channel,
                    instance=value["instance"],
                    platform_id=value["platform_id"],
                    thread=value["thread_id"],
                    sender=value["sender"],
                    agent=value["agent"],
                    operation=value["operation"],
                    text=text[0] if text else "",
                    created_at=value["created_at"],
                    files=tuple(Attachment.of(file) for file in files),
                    metadata=metadata,
                    target=_target(tx, metadata.get("target", {})),
                )
            )
    return parcels


def _target(tx: OfficeTransaction, about: Mapping[str, Any]) -> str | None:
    """The platform's id of the row that an edit or a reaction is about, as far as the platform gave one."""
    if "response" in about:
        row = tx.one("select receipts from responses where id = ?", (about["response"],))
        return str(json.loads(row[0])[0]) if row and row[0] else None
    row = tx.one("select platform_message_id from messages where message_id = ?", (about.get("message"),))
    return row[0] if row else None


def settle_parcel(tx: OfficeTransaction, id: int, fence: int, delivery: Delivery) -> bool:
    """The end of a sending. False: the claim is no longer ours, and nothing changed."""
    row = tx.one(
        "select retry_count, trace, message_id, agent, session from responses where id = ? and fence = ? and state = 1",
        (id, fence),
    )
    if row is None:
        return False
    retries, trace, message, agent, session = row
    attempt = retries + 1
    about: dict[str, Any] = {"trace": trace, "message": message, "agent": agent, "session": session, "response": id}
    if delivery.receipt is not None:
        RESPONSES.finish(tx, id, fence, ResponseState.ACKED)
        receipts = json.dumps([delivery.receipt])
        tx.run("update responses set acked_at = ?, receipts = ? where id = ?", (tx.now, receipts, id))
        tx.event("response_delivered", **about, attempt=attempt, receipt=delivery.receipt)
    elif delivery.retry_in_ms is not None:
        next_at = tx.now + delivery.retry_in_ms
        RESPONSES.give_back(tx, id, fence, retry_count=attempt, wait_ms=delivery.retry_in_ms)
        RESPONSES.end(tx, fence)
        tx.event("response_retried", **about, attempt=attempt, reason=delivery.reason, next_at=next_at)
    else:
        state = ResponseState.UNSURE if delivery.unsure else ResponseState.DEAD
        RESPONSES.finish(tx, id, fence, state)
        kind = "response_unsure" if delivery.unsure else "response_dead"
        tx.event(kind, **about, attempt=attempt, reason=delivery.reason)
    tx.run("update responses set last_error = ?, retry_count = ? where id = ?", (delivery.reason, attempt, id))
    return True
