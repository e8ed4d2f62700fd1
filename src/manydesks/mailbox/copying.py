"""A copy of one of a mailbox's files as it is between two writes, for a process that is neither host nor desk.

No SQLite looks at the file: what a desk may have forged is only bytes here, and a journal is never replayed. The bytes
are read under the lock that SQLite's readers take, so no write is under way meanwhile; a writer waits for as long as
the copy takes. A journal that a killed writer left belongs to the file and is copied with it: whoever opens the copy
next repairs it, where it would have been repaired.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from manydesks.domain.errors import BadInput, MailboxTimeout
from manydesks.mailbox import walk
from manydesks.mailbox.connection import LOCK_SECONDS
from manydesks.mailbox.hostile import JOURNAL_MAGIC

#: SQLite's own: where its locks lie in a file of any size
PENDING_BYTE = 0x4000_0000
SHARED_FIRST = PENDING_BYTE + 2
SHARED_BYTES = 510

RETRY_SECONDS = 0.005
PIECE = 1 << 20

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy(session: Path, parts: Sequence[str], target: Path, *, cap_bytes: int, seconds: float = LOCK_SECONDS) -> bool:
    """Copy a file of a session's folder to `target`; True: its journal had to go with it, to `target`-journal. Blocks.

    Raises `BadInput` with the end of a sentence for what is not copied, `MailboxTimeout` for a file that is locked for
    longer. Not for a process that has the file open by SQLite: its locks would go with this one.
    """
    with walk.opened(session, parts) as handle, _shared(handle, session.joinpath(*parts), seconds):
        size = os.fstat(handle).st_size
        if size > cap_bytes:
            raise BadInput(f"it has {size} bytes, {cap_bytes} are allowed")
        _write(handle, size, target)
        return _copy_journal(session, parts, target, cap_bytes)


def _copy_journal(session: Path, parts: Sequence[str], target: Path, cap_bytes: int) -> bool:
    *folder, name = parts
    try:
        with walk.opened(session, (*folder, f"{name}-journal")) as journal:
            # no writer has written these while a reader holds its lock: what is seen was left behind
            if os.pread(journal, len(JOURNAL_MAGIC), 0) != JOURNAL_MAGIC:
                return False
            size = os.fstat(journal).st_size
            if size > cap_bytes:
                raise BadInput(f"its journal has {size} bytes, {cap_bytes} are allowed")
            _write(journal, size, target.with_name(f"{target.name}-journal"))
            return True
    except BadInput:
        if os.path.lexists(session.joinpath(*folder, f"{name}-journal")):
            raise
        return False


@contextmanager
def _shared(handle: int, path: Path, seconds: float) -> Iterator[None]:
    """As SQLite takes it: by way of the byte on which a writer waits, or no writer would ever get a turn."""
    deadline = time.monotonic() + seconds
    while not _try(handle):
        if time.monotonic() > deadline:
            raise MailboxTimeout(path=path, seconds=seconds)
        time.sleep(RETRY_SECONDS)
    try:
        yield
    finally:
        fcntl.lockf(handle, fcntl.LOCK_UN, SHARED_BYTES, SHARED_FIRST)


def _try(handle: int) -> bool:
    try:
        fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, PENDING_BYTE)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    try:
        fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB, SHARED_BYTES, SHARED_FIRST)
        return True
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    finally:
        fcntl.lockf(handle, fcntl.LOCK_UN, 1, PENDING_BYTE)


def _write(source: int, size: int, target: Path) -> None:
    handle = os.open(target, _NEW, 0o600)
    try:
        at = 0
        while at < size and (piece := os.pread(source, min(PIECE, size - at), at)):
            at += len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(handle, view) :]
    finally:
        os.close(handle)
