"""The one module that writes files in the home's root: whole or not at all, one writer at a time."""

from __future__ import annotations

import copy
import errno
import fcntl
import os
import stat
import time
import tomllib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import HomeError, SettingsError
from manydesks.settings.document import Document, read_document
from manydesks.settings.home import Home, reason_of
from manydesks.settings.load import file_problems
from manydesks.settings.model import Settings, allowed, sections
from manydesks.settings.problems import check, refusal, unknown

#: how long a writer waits for another one; a write takes milliseconds, so a longer wait means a stuck process
LOCK_SECONDS = 10


@contextmanager
def home_lock(home: Home, clock: Clock | None = None, wait_seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Be the only one who changes files in the home's root. Not re-entrant.

    The lock is the kernel's: it ends with its process, however that ends. Raises `HomeError`.
    """
    home.prepare()
    clock = clock or SystemClock()
    path = home.run / "settings.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HomeError(home=home.path, reason=f"{path} cannot be opened, {reason_of(error)}.") from error
    try:
        deadline = clock.monotonic() + wait_seconds * 1000
        while not _locked(home, path, handle):
            if clock.monotonic() >= deadline:
                reason = f"another process has held {path} for {wait_seconds} s; nothing was changed."
                raise HomeError(home=home.path, reason=reason)
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def replace_file(home: Home, path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Give the file new content; a reader, also after a crash, finds the old or the new one, never a part.

    The caller holds `home_lock`. Without `mode` an existing file keeps its own, and a new one is 0600.
    Raises `HomeError`; the file is then as it was.
    """
    target = path.resolve()  # a linked file is replaced where it is, so that the link stays
    fresh = target.with_name(f".{target.name}.new")  # one name: what a killed writer left is replaced by the next
    try:
        old = target.stat() if target.exists() else None
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write(handle, data)
            if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(handle, old.st_uid, old.st_gid)  # else a change made with sudo locks the owner out
            os.fchmod(handle, mode if mode is not None else stat.S_IMODE(old.st_mode) if old is not None else 0o600)
            os.fsync(handle)
        finally:
            os.close(handle)
        fresh.replace(target)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            fresh.unlink(missing_ok=True)
        reason = f"{path} cannot be written, {reason_of(error)}; it was left as it was."
        raise HomeError(home=home.path, reason=reason) from error
    _sync_folder(home, target.parent)


def change_settings(home: Home, path: str, value: str | int | float | list[str]) -> Settings:
    """Set one key, such as "retry.base_seconds", in `settings.toml`; comments and order of the file stay.

    Returns what the file then says, without the environment's overrides. A file that is not valid, before or after
    the change, is left as it is: `SettingsError`. `value` is typed; what a person typed goes through `value_from_text`.
    """
    section, key = known_path(path)
    found = check({section: {key: value}})
    if isinstance(found, list):
        raise refusal(found)
    with home_lock(home):
        document = read_document(home.settings_file)
        if problems := file_problems(document):
            raise refusal(problems)
        text = edited(document, (section, key), value)
        settings = check(tomllib.loads(text))
        if isinstance(settings, list):
            raise refusal(settings)
        if text != document.text:
            replace_file(home, home.settings_file, text.encode())
        return settings


def edited(document: Document, key: tuple[str, ...], value: str | int | float | list[str]) -> str:
    """The document's text with one value set, everything else as the owner wrote it."""
    wanted = copy.deepcopy(document.data)
    _set(wanted, key, value)
    said: str | None = None
    with suppress(TOMLKitError):
        tree = tomlkit.parse(document.text)
        _set(tree, key, value)
        said = tomlkit.dumps(tree)
    # The editor is another parser than the reader: what it wrote must mean what was asked for, and nothing else.
    if said is None or tomllib.loads(said) != wanted:
        name = ".".join(key)
        raise SettingsError(reason=f"{document.path} is written in a way that {name} must be changed by hand.")
    return said


def without(document: Document, key: tuple[str, ...]) -> str:
    """The document's text without one value, everything else as the owner wrote it."""
    wanted = copy.deepcopy(document.data)
    _remove(wanted, key)
    said: str | None = None
    with suppress(TOMLKitError):
        tree = tomlkit.parse(document.text)
        _remove(tree, key)
        said = tomlkit.dumps(tree)
    if said is None or tomllib.loads(said) != wanted:  # as in `edited`
        raise SettingsError(reason=f"{document.path} is written in a way that {key[-1]} must be removed by hand.")
    return said


def dump_settings(settings: Settings) -> str:
    """Every setting as a `settings.toml` that says the same, each key with its meaning above it."""
    tree = tomlkit.document()
    for section, model in sections().items():
        table = tomlkit.table()
        for key, field in model.model_fields.items():
            table.add(tomlkit.comment(f"{field.description} Allowed: {allowed(field)}."))
            table.add(key, getattr(getattr(settings, section), key))
        tree.add(section, table)
    return tomlkit.dumps(tree)


def known_path(path: str) -> tuple[str, str]:
    """The section and key of a dotted path; `SettingsError` with the nearest name if there is none like it."""
    for section, model in sections().items():
        for key in model.model_fields:
            if path == f"{section}.{key}":
                return section, key
    paths = [f"{section}.{key}" for section, model in sections().items() for key in model.model_fields]
    raise SettingsError(reason=f"{unknown(path, paths, 'key')}.")


def _set(tree: MutableMapping[str, Any], key: tuple[str, ...], value: str | int | float | list[str]) -> None:
    for part in key[:-1]:
        if part not in tree:
            tree[part] = tomlkit.table() if isinstance(tree, TOMLDocument) else {}
        tree = tree[part]
    tree[key[-1]] = value


def _remove(tree: MutableMapping[str, Any], key: tuple[str, ...]) -> None:
    for part in key[:-1]:
        tree = tree[part]
    del tree[key[-1]]


def _locked(home: Home, path: Path, handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # network file systems without locks
        raise HomeError(home=home.path, reason=f"{path} cannot be locked, {reason_of(error)}.") from error
    return True


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _sync_folder(home: Home, folder: Path) -> None:
    """Make the new name survive a power cut."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync a folder
            return
        reason = f"a change in {folder} was made, but may not survive a power cut, {reason_of(error)}."
        raise HomeError(home=home.path, reason=reason) from error
