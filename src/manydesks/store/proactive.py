"""A response that answers nothing: the owner, or a program of theirs, says something to somebody by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manydesks.domain.attachment import Attachment
from manydesks.store.agents import get_agent
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import store_response

PREFIX = "proactive"


def say(
    tx: OfficeTransaction,
    *,
    channel: str,
    platform_id: str,
    sender: str,
    sender_id: str,
    text: str,
    agent: str | None = None,
    files: Sequence[Attachment] = (),
) -> dict[str, Any]:
    """Store it for delivery, as a trace of its own. `agent`: in whose name; it remembers having said so."""
    if agent is not None:
        get_agent(tx, agent)
    message_id = tx.fresh_id(PREFIX, "responses", "message_id")
    origin = {
        "message_id": message_id,
        "trace": tx.fresh_id("trace", "arrivals", "trace"),
        "session": None,
        "agent": agent,
        "body": None,
        "channel": channel,
        "instance": "",
        "platform_id": platform_id,
        "thread_id": "",
        "sender": sender,
        "sender_id": sender_id,
    }
    response = store_response(tx, origin, text, run=None, files=files)
    return {"id": response, "messageId": message_id, "traceId": origin["trace"]}
