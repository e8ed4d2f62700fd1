"""Several settings changed at once: all of them or none, and the owner's file otherwise as it was."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from manydesks.domain.errors import BadInput, HomeError, Stale
from manydesks.settings.document import Document, read_document
from manydesks.settings.file import edited, home_lock, replace_file, without
from manydesks.settings.home import Home
from manydesks.settings.load import file_problems, settings_of
from manydesks.settings.model import Settings
from manydesks.settings.problems import check, refusal
from manydesks.settings.secrets import edited_secrets

#: of one change; more is no change of settings
MOST_KEYS = 1000


def settings_version(home: Home) -> str:
    """Another one whenever the file was changed. Raises as `read_document`."""
    return _version(read_document(home.settings_file))


def merge_settings(
    home: Home,
    changes: Mapping[str, Any],
    *,
    version: str | None,
    fits: Callable[[Settings], None],
    secrets: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Change what is given, table by table; None takes a key out, so that its default counts again, or a secret.

    `version`: the file as it was read, else `Stale`. `fits` raises `SettingsError` for what an office cannot be opened
    with; it is shown the settings as they would count, with what `environ` overrides. Files that are not valid, before
    or after the change, are left as they are: `SettingsError`. One that cannot be written is `HomeError`, and the
    other is then as it was. Not promised: both or none if the process is killed between the two.
    """
    leaves = list(_leaves(changes))
    if len(leaves) > MOST_KEYS:
        raise BadInput(f"{len(leaves)} settings are too many for one change; at most {MOST_KEYS} are taken.")
    with home_lock(home):
        document = read_document(home.settings_file)
        if problems := file_problems(document):
            raise refusal(problems)
        if version is not None and (now := _version(document)) != version:
            raise Stale(what="The settings file", version=now)
        before = document
        for key, value in leaves:
            if value is not None:
                text = edited(document, key, value)
            elif _has(document.data, key):
                text = without(document, _with_its_table(document.data, key))
            else:
                continue
            document = replace(document, text=text, data=tomllib.loads(text))
        settings = check(document.data)
        if isinstance(settings, list):
            raise refusal(settings)
        fits(settings_of(document, environ))
        # the secrets first: settings that need a new one find it
        _write(home, edited_secrets(home, secrets or {}, environ), (before, document.text))


def _write(home: Home, *files: tuple[Document, str]) -> None:
    """Each, as it was read, gets its new text; all of them or none. Raises `HomeError`."""
    changed = [(old, text) for old, text in files if text != old.text]
    try:
        for old, text in changed:
            replace_file(home, old.path, text.encode(), mode=old.mode)
    except HomeError:
        for old, _ in changed:
            with suppress(HomeError, OSError):  # the first error is the one to tell
                _put_back(home, old)
        raise


def _put_back(home: Home, old: Document) -> None:
    if old.mode is None:
        old.path.unlink(missing_ok=True)
    elif old.path.read_bytes() != old.text.encode():
        replace_file(home, old.path, old.text.encode(), mode=old.mode)


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _has(tree: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    for part in key[:-1]:
        found = tree.get(part)
        if not isinstance(found, Mapping):
            return False
        tree = found
    return key[-1] in tree


def _with_its_table(tree: Mapping[str, Any], key: tuple[str, ...]) -> tuple[str, ...]:
    """Of a table that stands alone in another, the other: an empty one would not be there any more."""
    above: list[Any] = [tree]
    for part in key:
        above.append(above[-1][part])
    while len(key) > 1 and isinstance(above[-1], Mapping) and len(above[-2]) == 1:
        key, above = key[:-1], above[:-1]
    return key


def _version(document: Document) -> str:
    return hashlib.sha256(document.text.encode()).hexdigest()[:16]
