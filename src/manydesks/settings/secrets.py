"""Secrets, apart from the settings: `secrets.toml`, readable by its owner only, one `name = "value"` a line."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from manydesks.domain.errors import BadInput, SettingsError
from manydesks.settings.document import Document, read_document
from manydesks.settings.file import edited, home_lock, replace_file, without
from manydesks.settings.home import Home

PREFIX = "MANYDESKS_SECRET_"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: shorter values occur in ordinary text, where masking them would only garble it
MASKED_LENGTH = 6
MASK = "***"


class Secrets(Mapping[str, str]):
    """Secret values by name. Its repr shows the names only; equality is identity, so that a failed
    assertion has nothing to show either."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(f'{name}={MASK}' for name in sorted(self._values))})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("secrets are not pickled")


def load_secrets(home: Home, environ: Mapping[str, str] = os.environ) -> Secrets:
    """The secrets of this home; `MANYDESKS_SECRET_<NAME>` overrides a value. A missing file is none.

    Raises `SettingsError`, which never holds a value, if a file or a variable is not valid or others may read the file.
    """
    values = _read(home)[1]
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        if name != name.upper() or not NAME.fullmatch(name.lower()):
            raise SettingsError(reason=f"the variable {variable} must be {PREFIX} and a name of A-Z, 0-9 and _.")
        if fault := _fault(environ[variable]):
            raise SettingsError(reason=f"the variable {variable} {fault}.")
        values[name.lower()] = environ[variable]
    return Secrets(values)


def set_secret(home: Home, name: str, value: str) -> None:
    """Store one secret; the other lines of the file stay as they are.

    Raises `BadInput` for a name or a value that is not allowed, `SettingsError` if the present file is not valid,
    `HomeError` if it cannot be written.
    """
    check_secret(name, value)
    with home_lock(home):
        document, _ = _read(home)
        replace_file(home, home.secrets_file, edited(document, (name,), value).encode(), mode=0o600)


def check_secret(name: str, value: str) -> None:
    """`BadInput` for a name or a value that is not allowed."""
    if not NAME.fullmatch(name):
        raise BadInput(reason=f"a secret's name is a-z, 0-9 and _, beginning with a letter, not {name[:60]!r}.")
    if fault := _fault(value):
        raise BadInput(reason=f"the secret '{name}' {fault}.")


def remove_secret(home: Home, name: str) -> None:
    """Forget one secret of the file; a variable of the environment is not ours to remove.

    Raises `SettingsError` if there is no such secret in the file.
    """
    with home_lock(home):
        document, values = _read(home)
        if name not in values:
            known = f"there are {', '.join(sorted(values))}" if values else "there are none"
            raise SettingsError(reason=f"{home.secrets_file} has no secret '{name[:60]}'; {known}.")
        replace_file(home, home.secrets_file, without(document, (name,)).encode(), mode=0o600)


def edited_secrets(home: Home, changes: Mapping[str, str | None], environ: Mapping[str, str]) -> tuple[Document, str]:
    """The file as it is, and its text with these changes; None forgets a secret, if there is one. Writes nothing.

    The caller holds `home_lock`. Raises as `load_secrets`, also without changes, `set_secret` and `remove_secret`.
    """
    known = load_secrets(home, environ)
    document, values = _read(home)
    before = document
    for name, value in changes.items():
        if value is not None:
            check_secret(name, value)
            text = edited(document, (name,), value)
        elif name in values:
            text = without(document, (name,))
        elif name in known:
            raise SettingsError(
                reason=f"the secret '{name}' comes from the variable {PREFIX}{name.upper()}, which the office cannot "
                "take away; nothing was changed."
            )
        else:
            continue
        document = replace(document, text=text, data=tomllib.loads(text))
    return before, document.text


def mask(text: str, secrets: Mapping[str, str]) -> str:
    """The text with every secret of at least six characters replaced, also in its JSON and its URL form.

    Not promised: to find a secret that was cut, split over two texts, or encoded in another way.
    """
    return _masked(text, _forms(secrets))


def mask_texts(value: Any, secrets: Mapping[str, str]) -> Any:
    """What JSON can hold, with every text in it masked, names too. Numbers stay: one that looks like a secret is none,
    and blotted out in its JSON it would leave no JSON behind."""
    forms = _forms(secrets)

    def within(found: Any) -> Any:
        match found:
            case str():
                return _masked(found, forms)
            case Mapping():
                return {within(name): within(held) for name, held in found.items()}
            case list() | tuple():
                return [within(held) for held in found]
            case _:
                return found

    return within(value)


def _forms(secrets: Mapping[str, str]) -> frozenset[str]:
    """Each secret that is masked, in every way it may be written."""
    return frozenset(
        form
        for value in secrets.values()
        if len(value) >= MASKED_LENGTH
        for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(value, ""))
    )


def _masked(text: str, forms: frozenset[str]) -> str:
    spans: list[tuple[int, int]] = []
    for form in forms:
        start = text.find(form)
        while start >= 0:
            spans.append((start, start + len(form)))
            start = text.find(form, start + 1)  # overlapping ones too
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if end <= done:
            continue
        if start >= done:
            parts += [text[done:start], MASK]
        done = end
    return "".join(parts) + text[done:]


def _read(home: Home) -> tuple[Document, dict[str, str]]:
    path = home.secrets_file
    document = read_document(path, private=True)
    if document.mode is not None and document.mode & 0o077:
        raise SettingsError(reason=f"{path} is open to other users (mode {document.mode:04o}), run `chmod 600 {path}`.")
    values: dict[str, str] = {}
    for name, value in document.data.items():
        where = f"{path}, line {document.line_of((name,))}"
        if not NAME.fullmatch(name):  # not repeated: name and value may have been swapped
            raise SettingsError(reason=f"{where}: a secret's name is a-z, 0-9 and _, beginning with a letter.")
        fault = _fault(value) if isinstance(value, str) else 'must be a text, "in quotes"'
        if fault:
            raise SettingsError(reason=f"{where}: the secret '{name}' {fault}.")
        values[name] = value
    return document, values


def _fault(value: str) -> str | None:
    if not value.strip():
        return "is empty"
    if value != value.strip():  # most likely the line end of the file it was pasted from
        return "must not begin or end with white space"
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        return "must be UTF-8 text"
    return None
