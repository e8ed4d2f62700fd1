"""Files that came with messages and went to the model as they are: kept beside the history, each once, by its hash.

The inbox is the host's, and empties; a conversation that goes on has to show the same pictures again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from manydesks.runner.attachment import FilePart
from manydesks.runner.providers.http_api.talk import Entry, File

FOLDER = "files"
#: bytes of all files of a request, which base64 makes a third longer: the proxy takes 32 MiB
MOST_TOGETHER = 20 << 20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Files:
    """Its verbs block. The folder may have been a hostile desk's before: no link is followed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def keep(self, part: FilePart) -> File:
        """Raises `OSError` if it cannot be written."""
        digest = hashlib.sha256(part.data).hexdigest()
        with contextlib.suppress(FileExistsError):
            self._folder.mkdir(0o700)
        with self._opened() as place:
            fresh = f".{digest}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=place)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
            with os.fdopen(handle, "wb") as file:
                file.write(part.data)
            os.rename(fresh, digest, src_dir_fd=place, dst_dir_fd=place)
        return File(digest=digest, name=part.name, mime=part.mime, bytes=len(part.data))

    def contents(self, entries: Sequence[Entry], takes: Collection[str]) -> dict[File, str]:
        """Files of these types in base64: the newest first, as long as there is room. One that is gone is left out."""
        found: dict[File, str] = {}
        room = MOST_TOGETHER
        wanted = [part for entry in entries for part in entry.parts if isinstance(part, File) and part.mime in takes]
        if not wanted:
            return found
        with contextlib.suppress(OSError), self._opened() as place:
            for file in reversed(wanted):
                data = None if file in found else _read(place, file.digest, room)
                if data is not None:
                    found[file] = base64.b64encode(data).decode("ascii")
                    room -= len(data)
        return found

    def prune(self, entries: Iterable[Entry]) -> None:
        """Remove what this talk does not hold. What cannot be removed stays."""
        held = {part.digest for entry in entries for part in entry.parts if isinstance(part, File)}
        with contextlib.suppress(OSError), self._opened() as place:
            for name in set(os.listdir(place)) - held:  # noqa: PTH208 - a folder by its handle
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=place)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        place = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield place
        finally:
            os.close(place)


def _read(place: int, digest: str, most: int) -> bytes | None:
    if not _DIGEST.fullmatch(digest):
        return None
    try:
        handle = os.open(digest, _READ, dir_fd=place)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        data = file.read(most + 1)
    # a file that a crash left half written would make the API refuse the whole talk, for ever
    return data if len(data) <= most and hashlib.sha256(data).hexdigest() == digest else None
