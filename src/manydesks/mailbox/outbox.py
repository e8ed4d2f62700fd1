"""Files on their way out of a desk: `out/outbox/<id of the row>/<name>`.

Both sides open files that somebody else may swap at any moment, so a path is never opened as a whole. It is walked name
by name from a folder that is trusted, each name opened in the one before it and none through a symbolic link: what was
checked is what is read. A copy is made at each border, so nobody can change afterwards what was taken.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from manydesks.domain.attachment import MAX_FILE_BYTES, Attachment, is_file_name
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import is_public_id

PIECE = 1 << 20

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# a pipe without a writer would otherwise hold the reader for ever
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """A regular file below `root`, open for reading. Raises `BadInput` with the end of a sentence: why not."""
    if not parts or any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise BadInput("its path is not one that leads straight down")
    with _folder(root, parts[:-1]) as folder:
        try:
            handle = os.open(parts[-1], _FILE, dir_fd=folder)
        except OSError as error:
            raise _refusal(parts[-1], error, folder) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BadInput("it is not a regular file")
        if found.st_size > MAX_FILE_BYTES:
            raise BadInput(f"it has {found.st_size} bytes, at most {MAX_FILE_BYTES} can be sent")
        yield handle
    finally:
        os.close(handle)


def leave(outbox: Path, id: str, name: str, source: int) -> None:
    """The desk's side: copy an open file into the outbox, on the disk when this returns. The row comes after it."""
    if not is_public_id(id) or not is_file_name(name):
        raise BadInput("its name cannot be used")
    with _folder(outbox, ()) as root:
        with suppress(FileExistsError):
            os.mkdir(id, 0o700, dir_fd=root)
        with _folder(outbox, (id,)) as folder:
            _copy(source, os.open(name, _NEW, 0o600, dir_fd=folder))
            os.fsync(folder)
        os.fsync(root)


def collect(session: Path, id: str, name: str, files: Path) -> Attachment:
    """The host's side: copy a file of the outbox to `files`, on the disk when this returns.

    `session` is the session's folder, of which the desk has only `out/`. The copy is `<hash>/<name>`: the same file
    taken again is the same copy. Raises `BadInput` for what is not taken, `OSError` when the disk refuses.
    """
    if not is_public_id(id) or not is_file_name(name):
        raise BadInput("its name cannot be used")
    with opened(session, ("out", "outbox", id, name)) as source:
        part = files / f".part-{secrets.token_hex(8)}"
        try:
            digest, size = _copy(source, os.open(part, _NEW, 0o600))
            folder = files / digest[:32]
            folder.mkdir(mode=0o700, exist_ok=True)
            # a sweep looks at the folder's age: one that is named again is young again
            os.utime(folder)
            part.replace(folder / name)
            _sync(folder)
            _sync(files)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    return Attachment(name=name, bytes=size, sha256=digest, path=f"{files.name}/{folder.name}/{name}")


def discard(session: Path, id: str) -> None:
    """The host's side: what was taken need not lie in the outbox any more. Never follows a link out of it."""
    if is_public_id(id):
        with suppress(BadInput, OSError), _folder(session, ("out", "outbox")) as outbox:
            shutil.rmtree(id, ignore_errors=True, dir_fd=outbox)


@contextmanager
def _folder(root: Path, parts: Sequence[str]) -> Iterator[int]:
    try:
        # the root itself is ours, and may be reached through links of its owner
        handle = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    except OSError as error:
        raise BadInput(f"its folder cannot be opened ({error.strerror})") from None
    try:
        for part in parts:
            try:
                inner = os.open(part, _FOLDER, dir_fd=handle)
            except OSError as error:
                raise _refusal(part, error, handle) from None
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _refusal(part: str, error: OSError, folder: int) -> BadInput:
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            return BadInput(f"'{part}' is a symbolic link, and those are not followed")
    if isinstance(error, FileNotFoundError):
        return BadInput(f"there is no '{part}'")
    return BadInput(f"'{part}' cannot be opened ({error.strerror})")


def _copy(source: int, target: int) -> tuple[str, int]:
    """All of it, on the disk; the hash and the size. A file that grows while it is read has the same limit."""
    digest, size = hashlib.sha256(), 0
    try:
        while piece := os.read(source, PIECE):
            size += len(piece)
            if size > MAX_FILE_BYTES:
                raise BadInput(f"it has more than {MAX_FILE_BYTES} bytes")
            digest.update(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(target, view) :]
        os.fsync(target)
    finally:
        os.close(target)
    return digest.hexdigest(), size


def _sync(folder: Path) -> None:
    handle = os.open(folder, _FOLDER)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
