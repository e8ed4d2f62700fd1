"""`send_card`: a title, a few facts, links; shown as well as the platform can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.card import MAX_ACTIONS, MAX_FIELDS, SCHEMES, read_card, readable
from manydesks.runner.tools.base import Call, Outcome, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    for action in arguments.get("actions", ()):
        if not action["url"].lower().startswith(SCHEMES):
            return Outcome(ok=False, result=f"The url '{action['url']}' must begin with {', '.join(SCHEMES)}.")
    card = read_card({name: value for name, value in arguments.items() if name != "fallbackText"})
    if card is None:
        return Outcome(ok=False, result="That is not a card: a title, a description, fields and actions make one.")
    fallback = arguments.get("fallbackText") or readable(card)
    number = await call.send("chat", {"operation": "card", "card": card, "fallbackText": fallback})
    return Outcome(ok=True, result={"sent": True, "messageId": number})


def _text(most: int, description: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


TOOL = Tool(
    name="send_card",
    description=(
        "Send a card: a title, a short description, facts as name and value, and links. Good for a result that is "
        "looked at more than read. Where cards cannot be shown, people get it as plain text."
    ),
    arguments={
        "title": _text(200, "One line at the top."),
        "description": _text(4_000, "A few sentences below it."),
        "fields": {
            "type": "array",
            "maxItems": MAX_FIELDS,
            "description": "Facts, each a name and its value.",
            "items": {
                "type": "object",
                "properties": {"name": _text(100, "What it is."), "value": _text(1_000, "Its value.")},
                "required": ["name", "value"],
                "additionalProperties": False,
            },
        },
        "actions": {
            "type": "array",
            "maxItems": MAX_ACTIONS,
            "description": "Links.",
            "items": {
                "type": "object",
                "properties": {"label": _text(80, "What the link says."), "url": _text(2_000, "Where it leads.")},
                "required": ["label", "url"],
                "additionalProperties": False,
            },
        },
        "fallbackText": _text(8_000, "What to show where there are no cards; made from the rest if not given."),
    },
    required=frozenset({"title"}),
    run=run,
)
