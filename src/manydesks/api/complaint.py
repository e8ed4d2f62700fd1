"""What is wrong with what a client sent, in one sentence: where, and what is allowed there."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from manydesks.api.shapes.base import AGENT, IN_WORDS
from manydesks.settings.model import allowed, named_tables, sections

#: where a request's body is the settings, which say themselves what is allowed
SETTINGS = "/api/settings"
OBJECT = "it must be an object"
NOT_UTF8 = "The body is not valid UTF-8; JSON is sent as UTF-8."
#: of an error's types, those in other words than pydantic's
WORDS = {
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
    "dict_type": OBJECT,
    "string_type": "it must be a text",
    "string_too_short": "it must not be empty",
    "bool_type": "it must be true or false",
    "list_type": "it must be a list",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
}
MUST = "it must be "
_SUBJECT = re.compile(r"^(?:Value error, )?(?:Input|String|List|Dictionary|Value|Data) should ")
_MOST_NAME = 80


def complaint(errors: Sequence[Any], body: Any, path: str) -> str:
    """About the first of them. `body`: what was sent, as far as it could be read; `path`: where to."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return "The body is not valid JSON."
    place = _place(first, body)
    # what may be of several kinds has an error for each: that of the kind which was sent says more than the others
    same = [error for error in errors if _place(error, body) == place]
    fitting = [error for error in same if not error["type"].endswith("_type")]
    first = (fitting or same)[0]
    where = ".".join(place)[:_MOST_NAME]
    if not place:
        return "A body is needed: a JSON object." if first["type"] == "missing" else "The body must be a JSON object."
    if first["type"] == "missing":
        return f"'{where}' is needed."
    if first["type"] == "extra_forbidden":
        return f"There is no field '{where}' here."
    said = _of_settings(place) if path == SETTINGS else None
    return f"'{where}' is not allowed: {(said or _said(fitting or same)).rstrip('.')}."


def unread(cause: BaseException | None) -> str:
    """Why a body could not be read at all."""
    match cause:
        case RecursionError():
            return "The body is nested too deeply; no request needs more than a few levels."
        case UnicodeDecodeError():
            return NOT_UTF8
        case ValueError():
            return f"A number of the body is too long; at most {sys.get_int_max_str_digits()} digits are read."
        case _:
            return "The body could not be read; it must be a JSON object in UTF-8."


def _place(error: Any, body: Any) -> tuple[str, ...]:
    """The way through what was sent; pydantic's own names, of the kinds that a value may have, are no part of it."""
    source, *parts = error["loc"]
    if source != "body":
        return tuple(str(part) for part in parts)
    found, within = [], body
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part in (within if isinstance(within, dict) else range(len(within)) if isinstance(within, list) else ()):
            within = within[part]
        elif not (last and error["type"] == "missing"):
            continue
        found.append(str(part))
    return tuple(found)


def _said(errors: Sequence[Any]) -> str:
    words = list(dict.fromkeys(map(_words, errors)))
    return ", or ".join([words[0], *(more.removeprefix(MUST) for more in words[1:])])


def _words(error: Any) -> str:
    if error["type"] == "string_pattern_mismatch":
        return IN_WORDS.get(error["ctx"]["pattern"], "it is not written as this is; `GET /api/docs` says more")
    if error["type"] == "value_error" and error["loc"][-1] == "[key]":
        return IN_WORDS[AGENT]
    if (known := WORDS.get(error["type"])) is not None:
        return known
    said = _SUBJECT.sub("it must ", str(error["msg"])).removeprefix("Value error, ")
    return f"{said[:1].lower()}{said[1:]}"


def _of_settings(place: tuple[str, ...]) -> str | None:
    section, *keys = place
    model = sections().get(section)
    if section in named_tables():
        model, keys = named_tables()[section], keys[1:]
    if model is None or not keys or keys[0] not in model.model_fields:
        return None
    return f"it must be {allowed(model.model_fields[keys[0]])}, or null"
