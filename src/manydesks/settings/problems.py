"""What is wrong with given settings, in words: the key, what was given, what is allowed, the nearest name."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from manydesks.domain.errors import SettingsError
from manydesks.settings.model import Section, Settings, allowed, named_tables, sections

S = TypeVar("S", bound=Section)

#: in a URI: whatever comes after it may be a password, or signed
_CREDENTIALS = re.compile(r"://[^/]*[@?].*|://.*[?].*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Problem:
    #: the key's path, such as ("retry", "jitter")
    key: tuple[str, ...]
    #: what is wrong there and what is allowed
    words: str
    #: the file and line, or the variable; empty if there is nothing to point at
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.words}" if self.where else self.words


def check(data: Mapping[str, Any]) -> Settings | list[Problem]:
    """The settings, or everything that is wrong with them."""
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        # a value that may be of several types has a complaint for each of them
        return list(dict.fromkeys(_problem(found) for found in error.errors(include_url=False, include_context=False)))


def section_of(model: type[S], name: str, values: Mapping[str, Any]) -> S:
    """The values of `[name]` as the model has them. `SettingsError` says what is wrong with the first that is not."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first, *more = error.errors(include_url=False, include_context=False)
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        words = unknown(key, model.model_fields, f"key of [{name}]")
    elif first["type"] == "missing":
        words = f"[{name}] needs {key}: {allowed(model.model_fields[key])}"
    else:
        words = f"{name}.{key} is {_shown(first['input'])}, but must be {allowed(model.model_fields[key])}"
    raise refusal([Problem(key=(name, key), words=words)] * (1 + len(more)))


def refusal(problems: Sequence[Problem]) -> SettingsError:
    """One sentence for any number of problems: the first, and how many more."""
    first, more = problems[0], len(problems) - 1
    count = "" if more == 0 else f" (and {more} more problem{'s' if more > 1 else ''})"
    return SettingsError(reason=f"{first}{count}; nothing was changed.")


def unknown(name: str, known: Iterable[str], what: str) -> str:
    """`unknown key 'x', did you mean 'y'?` in a form that can stand inside a sentence."""
    names = list(known)
    near = nearest(name, names)
    hint = f"the nearest name is '{near}'" if near else f"allowed are {', '.join(names)}"
    return f"unknown {what} '{name[:80]}', {hint}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a person most likely meant; None if nothing is similar."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def _problem(found: ErrorDetails) -> Problem:
    key = tuple(str(part) for part in found["loc"])
    if key[0] in named_tables():
        return _table_problem(key[0], key[1:], found)
    if found["type"] == "extra_forbidden":
        return Problem(key=key, words=_unknown_key(key))  # its value is not repeated: it may be a misplaced secret
    if len(key) == 1:
        return Problem(key=key, words=f"'{key[0]}' must be a section, written [{key[0]}]")
    key = key[:2]  # of a list the whole: its parts have no line of their own
    field = sections()[key[0]].model_fields[key[1]]
    return Problem(key=key, words=f"{'.'.join(key)} is {_shown(found['input'])}, but must be {allowed(field)}")


def _table_problem(section: str, rest: tuple[str, ...], found: ErrorDetails) -> Problem:
    """What is wrong with `[section.name]` or a key of it."""
    model = named_tables()[section]
    if len(rest) > 1 and rest[1] == "[key]":
        rule = "1 to 32 lowercase letters, digits, and _ - inside"
        return Problem(key=(section, rest[0]), words=f"'{rest[0][:80]}' is not a name for [{section}.<name>]: {rule}")
    key = (section, *rest[:2])
    name = ".".join(key)
    if len(rest) < 2:
        return Problem(key=key, words=f"'{name}' must be a section, written [{section}.<name>]")
    if model is None:
        shown = _shown(found["input"])
        return Problem(key=key, words=f"{name} is {shown}, but must be a text, a number, true or false, or a list")
    if found["type"] == "extra_forbidden":
        return Problem(key=key, words=unknown(rest[1], model.model_fields, f"key of [{section}.{rest[0]}]"))
    field = model.model_fields[rest[1]]
    if found["type"] == "missing":
        return Problem(key=key[:2], words=f"[{section}.{rest[0]}] needs {rest[1]}: {allowed(field)}")
    return Problem(key=key, words=f"{name} is {_shown(found['input'])}, but must be {allowed(field)}")


def _unknown_key(key: tuple[str, ...]) -> str:
    known = sections()
    if len(key) == 1:
        # The name of a key without its section is as likely as a mistyped section.
        for section, model in known.items():
            if key[0] in model.model_fields:
                return f"unknown section '{key[0]}', the nearest name is '{section}.{key[0]}'"
        return unknown(key[0], (*known, *named_tables()), "section")
    return unknown(".".join(key), (f"{key[0]}.{name}" for name in known[key[0]].model_fields), "key")


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            value = _CREDENTIALS.sub("://***", value)
            return json.dumps(value if len(value) <= 40 else value[:40] + "…", ensure_ascii=False)
        case int() | float():
            said = str(value)
            return said if len(said) <= 40 else said[:40] + "…"
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return "a date or time"
