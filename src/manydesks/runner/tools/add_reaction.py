"""`add_reaction`: an emoji on a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.runner.tools.base import Call, Outcome, Tool

#: the longest emoji (a family, a flag) is made of many characters
MAX_EMOJI = 32


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    number, emoji = arguments.get("messageId", call.message.seq), arguments["emoji"].strip()
    if emoji.isascii() or any(character.isascii() and character.isalpha() for character in emoji):
        return Outcome(ok=False, result="An emoji is one picture such as 👍, not a word; send_message sends words.")
    target = await call.means.find(number)
    if target is None:
        return Outcome(
            ok=False,
            result=f"There is no message {number}; the messageId is the `seq` of a message that you were given, or the "
            "number that sending one gave back.",
        )
    await call.send("chat", {"operation": "reaction", "messageId": number, "target": target, "emoji": emoji})
    return Outcome(ok=True, result={"reacted": number})


TOOL = Tool(
    name="add_reaction",
    description=(
        "Put an emoji on a message, to show that you have seen it or what you think of it without writing. "
        "It does not replace an answer that somebody waits for."
    ),
    arguments={
        "emoji": {"type": "string", "minLength": 1, "maxLength": MAX_EMOJI, "description": "One emoji, such as 👍."},
        "messageId": {
            "type": "integer",
            "minimum": 1,
            "description": "The `seq` of the message; the one that you are answering if not given.",
        },
    },
    required=frozenset({"emoji"}),
    run=run,
)
