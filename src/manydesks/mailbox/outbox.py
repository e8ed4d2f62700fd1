"""Files on their way out of a desk: `out/outbox/<id of the row>/<name>`.

Both sides open files that somebody else may swap at any moment, so both walk there without links. A copy is made at
each border, so nobody can change afterwards what was taken.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from manydesks.domain.attachment import MAX_FILE_BYTES, Attachment, is_file_name
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import is_public_id
from manydesks.mailbox import walk

PIECE = 1 << 20

#: of a digest: enough that no two files meet
_DIGITS = 32
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """A regular file below `root` that is not too large, open for reading. Raises `BadInput` as `walk.opened` does."""
    with walk.opened(root, parts) as handle:
        size = os.fstat(handle).st_size
        if size > MAX_FILE_BYTES:
            raise BadInput(f"it has {size} bytes, at most {MAX_FILE_BYTES} can be sent")
        yield handle


def leave(outbox: Path, id: str, name: str, source: int) -> None:
    """The desk's side: copy an open file into the outbox, on the disk when this returns. The row comes after it."""
    if not is_public_id(id) or not is_file_name(name):
        raise BadInput("its name cannot be used")
    with walk.folder(outbox) as root:
        with suppress(FileExistsError):
            os.mkdir(id, 0o700, dir_fd=root)
        with walk.folder(outbox, (id,)) as folder:
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
        return keep(source, name, files)


def keep(source: int, name: str, files: Path) -> Attachment:
    """Copy an open file to `files`, on the disk when this returns; the row that names it comes after.

    Raises `BadInput` for one that is too large, `OSError` when the disk refuses.
    """
    part = files / f".part-{secrets.token_hex(8)}"
    try:
        digest, size = _copy(source, os.open(part, _NEW, 0o600))
        folder = files / digest[:_DIGITS]
        folder.mkdir(mode=0o700, exist_ok=True)
        # a sweep looks at the folder's age: one that is named again is young again
        os.utime(folder)
        part.replace(folder / name)
        _sync(folder)
        _sync(files)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return Attachment(name=name, bytes=size, sha256=digest, path=kept_path(digest, name, files))


def kept_path(digest: str, name: str, files: Path) -> str:
    """Where `keep` keeps what has this digest, as rows name it."""
    return f"{files.name}/{digest[:_DIGITS]}/{name}"


def discard(session: Path, id: str) -> None:
    """The host's side: what was taken need not lie in the outbox any more. Never follows a link out of it."""
    if is_public_id(id):
        with suppress(BadInput, OSError), walk.folder(session, ("out", "outbox")) as outbox:
            shutil.rmtree(id, ignore_errors=True, dir_fd=outbox)


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
    handle = os.open(folder, walk.FOLDER)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
