"""The text and the author of an inbound message, whatever its kind."""

from __future__ import annotations

import json

from manydesks.domain.mail import Inbound

#: content key that holds the text, by kind
_TEXT = {"chat": "text", "task": "prompt", "webhook": "payload", "system": "result"}
#: content key that says where it comes from, by kind
_SENDER = {"chat": "sender", "task": "schedule", "webhook": "source"}


def text_of(message: Inbound) -> str:
    """What the message says; anything that is not text is shown as JSON."""
    value = message.content.get(_TEXT.get(message.kind, "text"))
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sender_of(message: Inbound) -> str:
    """Who or what it comes from."""
    if message.kind == "system":
        return "the office"
    value = message.content.get(_SENDER.get(message.kind, "sender"))
    return str(value) if value else f"an unnamed {message.kind}"
