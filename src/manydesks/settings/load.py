"""Settings as the office uses them: defaults, then `settings.toml`, then the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from manydesks.settings.document import Document, read_document
from manydesks.settings.home import Home
from manydesks.settings.model import Settings, sections, takes_text
from manydesks.settings.problems import Problem, check, nearest, refusal

PREFIX = "MANYDESKS_"
HOME = "MANYDESKS_HOME"
#: the command line's own: shows the stack trace of an internal error
DEBUG = "MANYDESKS_DEBUG"
#: short for a setting that is asked for often; it goes before the long name
SHORT = {"MANYDESKS_PORT": ("api", "port")}
#: beginnings of variables that are no settings: secrets, and what tests keep for themselves
NO_SETTINGS = ("MANYDESKS_SECRET_", "MANYDESKS_TEST_")


def load_settings(home: Home, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this home. Reads only: a file that is not valid is reported and left as it is.

    Raises `SettingsError` for the first problem (with the number of the others), `HomeError` if the file is unreadable.
    """
    return settings_of(read_document(home.settings_file), environ)


def settings_of(document: Document, environ: Mapping[str, str]) -> Settings:
    """As `load_settings`, of a file that need not be written yet."""
    overrides, problems = _overrides(environ)
    problems = file_problems(document) + problems
    if problems:
        raise refusal(problems)
    merged = {name: dict(values) for name, values in document.data.items()}
    for (section, key), value in overrides.items():
        merged.setdefault(section, {})[key] = value
    settings = check(merged)
    if isinstance(settings, list):
        raise refusal(settings)
    return settings


def file_problems(document: Document) -> list[Problem]:
    """What is wrong in the file, in the order of its lines."""
    found = check(document.data)
    if not isinstance(found, list):
        return []
    placed = sorted((document.line_of(problem.key) or 0, problem.key, problem.words) for problem in found)
    return [
        Problem(key=key, words=words, where=f"{document.path}, line {line}" if line else str(document.path))
        for line, key, words in placed
    ]


def variables() -> dict[str, tuple[str, str]]:
    """Every variable that overrides a setting, with the section and key it stands for."""
    return {
        f"{PREFIX}{section}__{key}".upper(): (section, key)
        for section, model in sections().items()
        for key in model.model_fields
    }


def value_from_text(field: FieldInfo, text: str) -> Any:
    """A value written without a file around it (in a variable, on a command line): TOML, else plain text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = parsed.get("value")
    if len(parsed) != 1 or (takes_text(field) and not isinstance(value, str)):
        return text  # `crash`, `2g` and an agent called 7 need no quotes; a line break must not smuggle in other keys
    return value


def _overrides(environ: Mapping[str, str]) -> tuple[dict[tuple[str, str], Any], list[Problem]]:
    known, models = {**variables(), **SHORT}, sections()
    values: dict[tuple[str, str], Any] = {}
    problems: list[Problem] = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in (HOME, DEBUG) or name.startswith(NO_SETTINGS):
            continue
        if name not in known:
            problems.append(Problem(key=(name,), words=_unknown_variable(name, known)))
            continue
        section, key = known[name]
        value = value_from_text(models[section].model_fields[key], environ[name])
        values[section, key] = value
        found = check({section: {key: value}})
        if isinstance(found, list):
            problems += [Problem(key=p.key, words=p.words, where=f"the variable {name}") for p in found]
    return values, problems


def _unknown_variable(name: str, known: Iterable[str]) -> str:
    # Without the prefix, which would make everything look alike.
    near = nearest(name.removeprefix(PREFIX), [variable.removeprefix(PREFIX) for variable in (*known, HOME)])
    hint = f"the nearest name is '{PREFIX}{near}'" if near else f"allowed are {HOME} and {PREFIX}<SECTION>__<KEY>"
    return f"unknown variable '{name[:80]}', {hint}"
