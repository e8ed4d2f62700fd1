"""Messages of the office to an agent: an answer that came late, a mate's answer, a refusal. Kind `system`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.routing import Target
from manydesks.store.accept import store_message
from manydesks.store.ledger import OfficeTransaction


def tell(
    tx: OfficeTransaction,
    message: Mapping[str, Any],
    agent: str,
    content: Mapping[str, Any],
    *,
    sender: str | None = None,
    from_agent: str | None = None,
    hop: int | None = None,
) -> None:
    """One message in the trace of `message`, whose address its answer takes; `content["result"]` says it in words.

    An agent that was removed is not told.
    """
    if tx.one("select 1 from agents where id = ? and removed_at is null", (agent,)) is None:
        return
    text = str(content["result"])
    store_message(
        tx,
        Target(agent=agent, text=text, by="answer"),
        message_id=tx.fresh_id("internal", "messages", "message_id"),
        body=tx.body(text),
        trace=message["trace"],
        conversation="",
        address={
            **{column: message[column] for column in ("arrival", "channel", "instance", "platform_id", "thread_id")},
            "sender": sender or message["sender"],
            "sender_id": message["sender_id"],
            "priority": message["priority"],
            "parent": message["message_id"],
            "hop": message["hop"] if hop is None else hop,
            "chain": message["chain"],
            "from_agent": from_agent,
            "kind": "system",
            "content": json.dumps(content, ensure_ascii=False),
        },
    )
