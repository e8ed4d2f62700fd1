"""Every pattern that a route has is known in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manydesks.api.app import openapi_document
from manydesks.api.complaint import complaint
from manydesks.api.shapes.base import BASE64, IN_WORDS


def patterns(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        for inner in part.values():
            yield from patterns(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from patterns(inner)


def test_no_pattern_is_shown_to_anybody() -> None:
    made = openapi_document()
    schemas = made["components"]["schemas"]
    # those of the settings are said in the settings' own words
    shapes = ("AgentGiven", "TeamGiven", "MessageGiven", "ResponseGiven", "PostGiven", "PromptGiven", "AnswerGiven")
    found = {*patterns(made["paths"]), *(one for name in shapes for one in patterns(schemas[name]))}
    # refused by the routes themselves, in better words
    found = {one for one in found if one != BASE64 and "processor_start" not in one}
    assert found
    assert found <= IN_WORDS.keys()


def test_names_of_kinds_are_no_part_of_a_place() -> None:
    errors = [
        {"type": "model_type", "loc": ("body", "files", 0, "FileGiven"), "msg": "Input should be an object"},
        {"type": "string_too_long", "loc": ("body", "files", 0, "constrained-str"), "msg": "String should have less"},
    ]
    said = complaint(errors, {"files": ["/x"]}, "/api/message")
    assert said == "'files.0' is not allowed: it must have less."
