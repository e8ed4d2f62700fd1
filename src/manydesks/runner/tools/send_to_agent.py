"""`send_to_agent`: work for another agent, whose answer comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.runner.tools.base import Call, Outcome, Tool
from manydesks.runner.tools.send_message import MAX_TEXT


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    agent = arguments["agent"].strip().removeprefix("@").lower()
    if not agent:
        return Outcome(ok=False, result="The argument 'agent' of send_to_agent must be the id of an agent.")
    await call.send("system", {"action": "send_to_agent", "payload": {"agent": agent, "text": arguments["text"]}})
    return Outcome(
        ok=True,
        result={
            "handed": "to the office",
            "note": f"The office gives it to @{agent} if you may address it, and tells you at once if you may not; the "
            "answer, or why there is none, comes to you as a message. "
            "Do not wait for it: end your turn when nothing else is to do.",
        },
    )


TOOL = Tool(
    name="send_to_agent",
    description=(
        "Give work to another agent of your team, and get its answer back as a message of its own in a later turn; the "
        "person who began the conversation sees the answer too. Say all that the other agent needs: it does not know "
        "your conversation."
    ),
    arguments={
        "agent": {"type": "string", "minLength": 1, "maxLength": 33, "description": "The id of the agent: 'reviewer'."},
        "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": "What it should do."},
    },
    required=frozenset({"agent", "text"}),
    run=run,
)
