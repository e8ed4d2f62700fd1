"""A question of an agent to a person: what may be asked, when it is the same one, and which option an answer means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.domain.ids import is_public_id

MAX_QUESTION = 4_000
MAX_TITLE = 200
MAX_OPTIONS = 20
MAX_OPTION = 200

#: a question that nobody answers ends by itself
EXPIRES_MS = 7 * 24 * 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    label: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a desk proposes to ask."""

    #: the desk's own id for it
    id: str
    title: str
    question: str
    options: tuple[Option, ...]

    @property
    def key(self) -> str:
        """Questions with the same key are one."""
        same = json.dumps([self.question, [[option.label, option.value] for option in self.options]])
        return hashlib.sha256(same.encode()).hexdigest()

    def readable(self) -> str:
        """For places without buttons."""
        lines = [*([self.title] if self.title else []), self.question]
        return "\n".join((*lines, *(f"  {number}. {option.label}" for number, option in enumerate(self.options, 1))))


def read_question(content: Mapping[str, Any]) -> Question | None:
    """The question in a desk's row; None if it is not one."""
    id, title, question = content.get("questionId"), content.get("title", ""), content.get("question")
    options = content.get("options", [])
    if not isinstance(id, str) or not is_public_id(id) or not isinstance(options, list) or len(options) > MAX_OPTIONS:
        return None
    if not _text(title, 0, MAX_TITLE) or not _text(question, 1, MAX_QUESTION):
        return None
    read = [_option(option) for option in options]
    if any(option is None for option in read):
        return None
    return Question(id=id, title=str(title), question=str(question), options=tuple(filter(None, read)))


def chosen(options: tuple[Option, ...], answer: str) -> Option | None:
    """The option that an answer means: its value, its label whatever the case, or its number; None: own words."""
    said = answer.strip()
    for option in options:
        if said == option.value:
            return option
    for option in options:
        if said.casefold() in (option.label.casefold(), option.value.casefold()):
            return option
    if said.isascii() and said.isdigit() and 1 <= int(said[:4]) <= len(options):
        return options[int(said[:4]) - 1]
    return None


def _option(value: Any) -> Option | None:
    if not isinstance(value, Mapping):
        return None
    label, chosen = value.get("label"), value.get("value", value.get("label"))
    if not _text(label, 1, MAX_OPTION) or not _text(chosen, 1, MAX_OPTION):
        return None
    return Option(label=str(label), value=str(chosen))


def _text(value: Any, least: int, most: int) -> bool:
    return isinstance(value, str) and least <= len(value.strip()) and len(value) <= most
