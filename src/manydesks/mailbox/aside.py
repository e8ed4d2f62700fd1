"""Moves what a desk made in place of its files out of the desk's reach, whatever it is: a file, a folder without a
bottom, a folder that is closed. The last that was moved is kept for people, what was moved before it is removed."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

#: in the host's own part of a session's folder: the last ones, and what is on its way out
KEPT, TRASH = "refused", "trash"
#: how many names one call removes: a desk can make more of them than anybody has time to remove at once
MOST_REMOVED = 20_000

_ANY_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def move(paths: Iterable[Path], private: Path) -> None:
    """To `refused` in `private`, which no desk can reach; names that are not there are left out.

    Raises `OSError` if one cannot be moved. That older ones could not be removed is only logged.
    """
    found = [path for path in paths if os.path.lexists(path)]
    if not found:
        return
    kept, trash = private / KEPT, private / TRASH
    trash.mkdir(mode=0o700, parents=True, exist_ok=True)
    # never onto an older one: no folder can be replaced by a file, nor a file by a folder
    if kept.exists():
        kept.rename(trash / secrets.token_hex(8))
    kept.mkdir(mode=0o700)
    for path in found:
        _open_up(path)
        path.rename(kept / path.name)
    try:
        _empty(trash)
    except OSError as error:
        log.warning("%s cannot be emptied: %s", trash, error.strerror, extra={"action": "trash_not_emptied"})


def _open_up(path: Path) -> None:
    """A folder can be moved, and looked into, only by who may write it; the desk may have said that nobody does."""
    try:
        handle = os.open(path, _ANY_FOLDER)
    except OSError:
        return  # no folder
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - a descriptor of O_PATH has no other way
    finally:
        os.close(handle)


def _empty(trash: Path) -> None:
    """Each folder found inside is moved up to `trash` first, so that no path grows long and nothing recurses."""
    left = MOST_REMOVED
    while folders := list(trash.iterdir()):
        for folder in folders:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if left == 0:
                        return
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        _open_up(Path(entry.path))
                        Path(entry.path).rename(trash / secrets.token_hex(8))
                    else:
                        Path(entry.path).unlink()
            folder.rmdir()
    trash.rmdir()
