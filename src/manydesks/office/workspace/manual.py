"""`AGENTS.md` in an agent's folder, kept up to date in its marked part only.

The folder belongs to the agent, which may put anything there at any moment: the file is opened without following
links, and replaced as a whole by one that is complete, so nobody ever reads half of it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from enum import Enum
from pathlib import Path

from manydesks.domain.errors import BadInput
from manydesks.mailbox import walk
from manydesks.office.workspace.roster import renewed

NAME = "AGENTS.md"
#: what an agent looks after by itself; written by people in the same way
HEARTBEAT = "HEARTBEAT.md"
#: a manual that is larger is left alone
MOST_BYTES = 1 << 20
#: how often a file that somebody else writes just now is looked at again
TRIES = 5


class Manual(Enum):
    """What became of it, or would."""

    #: it says what it should
    KEPT = "kept up to date by the office"
    #: it has been written
    RENEWED = "renewed"
    #: its owner took the marks away
    UNMARKED = "not kept up to date: its marks were removed"
    #: its owner took it away
    MISSING = "not there"


def refresh(folder: Path, part: str) -> Manual:
    """Bring the marked part up to date. Raises `BadInput` with the end of a sentence, or `OSError`."""
    for _ in range(TRIES):
        found = _read(folder)
        if found is None:
            return Manual.MISSING
        data, known = found
        wanted = renewed(data, part)
        if wanted is None:
            return Manual.UNMARKED
        if wanted == data:
            return Manual.KEPT
        if _replace(folder, wanted, known):
            return Manual.RENEWED
    raise BadInput("somebody else writes it just now")


def read(folder: Path, name: str = NAME) -> bytes | None:
    """What it, or the heartbeat, says; None: it is not there. Raises as `refresh`."""
    found = _read(folder, name)
    return None if found is None else found[0]


def check(folder: Path, data: bytes, name: str = NAME) -> None:
    """Whether these words could be put in its place as things are; a folder that is not there is no fault. Raises as
    `refresh`."""
    if len(data) > MOST_BYTES:
        raise BadInput(f"it would be larger than {MOST_BYTES} bytes")
    if os.path.lexists(folder):
        _read(folder, name)


def write(folder: Path, data: bytes, name: str = NAME) -> None:
    """Put these words in its place, whole. Raises as `refresh`."""
    if len(data) > MOST_BYTES:
        raise BadInput(f"it would be larger than {MOST_BYTES} bytes")
    for _ in range(TRIES):
        found = _read(folder, name)
        if _replace(folder, data, None if found is None else found[1], name):
            return
    raise BadInput("somebody else writes it just now")


def look(folder: Path) -> Manual:
    """How it is kept, without touching it. Raises as `refresh`."""
    found = _read(folder)
    if found is None:
        return Manual.MISSING
    return Manual.UNMARKED if renewed(found[0], "") is None else Manual.KEPT


def _read(folder: Path, name: str = NAME) -> tuple[bytes, os.stat_result] | None:
    with walk.folder(folder) as inside:
        try:
            os.stat(name, dir_fd=inside, follow_symlinks=False)
        except FileNotFoundError:
            return None
    with walk.opened(folder, (name,)) as handle, os.fdopen(handle, "rb", closefd=False) as file:
        known = os.fstat(handle)
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadInput(f"it is larger than {MOST_BYTES} bytes")
    return data, known


def _replace(folder: Path, data: bytes, known: os.stat_result | None, name: str = NAME) -> bool:
    """Put a complete file in its place. False: it is not the one that was read any more."""
    # complete, and not in its place yet; one that a killed office left is overwritten
    fresh = f".{name}.new"
    with walk.folder(folder) as inside:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=inside)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(fresh, flags, 0o600, dir_fd=inside)
        try:
            with os.fdopen(handle, "wb") as new:
                new.write(data)
                new.flush()
                os.fchmod(handle, stat.S_IMODE(known.st_mode) if known is not None else 0o600)
                os.fsync(handle)
            try:
                now = os.stat(name, dir_fd=inside, follow_symlinks=False)
            except FileNotFoundError:
                now = None
            same = (now and _mark(now)) == (known and _mark(known))
            if same:
                os.rename(fresh, name, src_dir_fd=inside, dst_dir_fd=inside)
            else:
                os.unlink(fresh, dir_fd=inside)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=inside)
            raise
    return same


def _mark(file: os.stat_result) -> tuple[int, int, int, int]:
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns
