"""A card: a title, a few facts, links. What a desk may put on one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_FIELDS = 25
MAX_ACTIONS = 10
#: links that a person may be offered: nothing that runs something when it is clicked
SCHEMES = ("https://", "http://", "mailto:")


def read_card(value: Any) -> dict[str, Any] | None:
    """The card in a desk's row, with nothing in it but what a card may have; None if it is not one."""
    if not isinstance(value, Mapping) or not _text(value.get("title"), 200):
        return None
    description, fields, actions = value.get("description"), value.get("fields", []), value.get("actions", [])
    if description is not None and not _text(description, 4_000):
        return None
    read = _members(fields, MAX_FIELDS, {"name": 100, "value": 1_000})
    links = _members(actions, MAX_ACTIONS, {"label": 80, "url": 2_000})
    if read is None or links is None or not all(link["url"].lower().startswith(SCHEMES) for link in links):
        return None
    return {"title": value["title"], "description": description, "fields": read, "actions": links}


def readable(card: Mapping[str, Any]) -> str:
    """A card that was read, as text."""
    lines = [card["title"], *([card["description"]] if card["description"] else [])]
    lines += [f"{field['name']}: {field['value']}" for field in card["fields"]]
    lines += [f"{action['label']}: {action['url']}" for action in card["actions"]]
    return "\n".join(lines)


def _members(value: Any, most: int, parts: Mapping[str, int]) -> list[dict[str, str]] | None:
    if not isinstance(value, list) or len(value) > most:
        return None
    if not all(
        isinstance(member, Mapping) and all(_text(member.get(name), size) for name, size in parts.items())
        for member in value
    ):
        return None
    return [{name: member[name] for name in parts} for member in value]


def _text(value: Any, most: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= most
