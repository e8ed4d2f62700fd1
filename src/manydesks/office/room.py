"""Room on the disk: while there is none no run begins, as a desk that cannot write fails through no fault of its work.

The store may go on for a while on a full disk, inside the log that it reuses; the files of a new desk cannot.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from manydesks.domain.errors import MailboxFull

log = logging.getLogger(__name__)

#: a mailbox takes 100 KiB, an answer at most a few hundred more
NEEDED_BYTES = 1024 * 1024


def has_room(folder: Path) -> bool:
    """Whether the folder's disk has room for a desk's files."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        # it was deleted, or its disk fails: the first one makes it anew, the second is told to whoever writes there
        return True
    return disk.f_bavail * disk.f_frsize >= NEEDED_BYTES


def is_full(error: Exception) -> bool:
    """Whether this says that there was no room, whatever there is by now."""
    return isinstance(error, MailboxFull) or (isinstance(error, OSError) and error.errno == errno.ENOSPC)


class DiskRoom:
    """The disk that a folder is on. A quota does not show here: what it refuses counts as a failed attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._enough = True

    def enough(self) -> bool:
        enough = has_room(self._folder)
        if enough != self._enough:
            self._enough = enough
            sentence = "The disk has room again" if enough else "The disk is full; no run begins until there is room"
            log.warning("%s (%s).", sentence, self._folder, extra={"action": "disk_room" if enough else "disk_full"})
        return enough
