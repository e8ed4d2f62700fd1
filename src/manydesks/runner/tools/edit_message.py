"""`edit_message`: another text for a message that the agent has sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.runner.tools.base import Call, Outcome, Tool
from manydesks.runner.tools.send_message import MAX_TEXT


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    number = arguments["messageId"]
    target = await call.means.find(number) if number % 2 == 1 else None
    if target is None:
        return Outcome(
            ok=False,
            result=f"You have sent no message {number}; the messageId is the number that send_message, send_file or "
            "send_card gave back, and is odd.",
        )
    content = {"operation": "edit", "messageId": number, "target": target, "text": arguments["text"]}
    await call.send("chat", content)
    return Outcome(ok=True, result={"edited": number})


TOOL = Tool(
    name="edit_message",
    description=(
        "Replace the text of a message that you have sent before, wherever it was sent. Use it to keep one status line "
        "up to date instead of sending many. Messages of other people cannot be edited."
    ),
    arguments={
        "messageId": {"type": "integer", "minimum": 1, "description": "The number that sending it gave back."},
        "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": "The whole new text."},
    },
    required=frozenset({"messageId", "text"}),
    run=run,
)
