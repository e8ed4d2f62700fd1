"""Who could have written a plugin: its code does all that the owner can do, so nobody else may be able to change it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: a plugin is a few functions; what is larger is no plugin
MOST_BYTES = 1 << 20


class NotTrusted(Exception):
    """The sentence says why, and what to do."""


def read_source(path: Path) -> bytes:
    """The code of a plugin file, if only its owner could have written it. Raises `NotTrusted`.

    A link is followed: then the folder of its target counts too. What is checked is what is read, by one handle.
    """
    target = _resolved(path)
    for folder in dict.fromkeys((path.parent.parent, path.parent, target.parent)):
        _check(folder, folder.stat(), "the folder")
    try:
        # not blocking: a pipe in the file's place must not hang
        handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise NotTrusted(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise NotTrusted(f"{path} is not a file")
        _check(target, found, "the file")
        source = file.read(MOST_BYTES + 1)
    if len(source) > MOST_BYTES:
        raise NotTrusted(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    return source


def _resolved(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its links go round in a circle"
        raise NotTrusted(f"{path} cannot be read: {reason}") from error


def _check(path: Path, found: os.stat_result, what: str) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise NotTrusted(f"{what} {path} belongs to another user, who could change what it does; make it yours")
    # a sticky folder such as /tmp lets nobody replace what is another's
    if found.st_mode & 0o022 and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(found.st_mode)
        raise NotTrusted(f"{what} {path} can be written by others (mode {mode:04o}); run `chmod go-w {path}`")
