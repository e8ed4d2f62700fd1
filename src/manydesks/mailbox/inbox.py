"""Files on their way to a desk: `in/inbox/<id of the message>/<name>`, each a copy of one that the office keeps.

A copy, not a link: whatever a desk without a sandbox does to it, the office's own stays as it was sent.
"""

from __future__ import annotations

import mimetypes
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from manydesks.domain.attachment import Attachment, is_file_name
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import is_public_id
from manydesks.mailbox import walk

_PIECE = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def attachments(message: str, files: Sequence[Attachment]) -> list[dict[str, Any]]:
    """What a message's content says of its files. The type is by the name; whoever needs to be sure looks inside."""
    return [
        {
            "type": mime.partition("/")[0] if mime.startswith(("image/", "audio/", "video/")) else "document",
            "name": file.name,
            "path": f"{message}/{file.name}",
            "mime": mime,
            "bytes": file.bytes,
        }
        for file in files
        for mime in (mimetypes.guess_type(file.name, strict=False)[0] or "application/octet-stream",)
    ]


def fill(session: Path, message: str, files: Sequence[Attachment], home: Path) -> None:
    """Put a message's files into the session's inbox, before the row that names them. Blocks.

    One that the office has lost is left out, and the agent is told that it is missing. Raises `OSError` when the disk
    refuses, `BadInput` when the inbox is not a folder of the session.
    """
    if not files:
        return
    if not is_public_id(message) or not all(is_file_name(file.name) for file in files):
        raise BadInput("a file's name cannot be used")
    with walk.folder(session, ("in", "inbox")) as inbox:
        with suppress(FileExistsError):
            os.mkdir(message, 0o700, dir_fd=inbox)
        with walk.folder(session, ("in", "inbox", message)) as folder:
            for file in files:
                _copy(home, file, folder)


def _copy(home: Path, file: Attachment, folder: int) -> None:
    with suppress(FileNotFoundError):
        if os.stat(file.name, dir_fd=folder, follow_symlinks=False).st_size == file.bytes:
            return  # a message that is tried again
    part = f".part-{secrets.token_hex(8)}"
    try:
        with walk.opened(home, file.path.split("/")) as source:
            target = os.open(part, _NEW, 0o600, dir_fd=folder)
            try:
                while piece := os.read(source, _PIECE):
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(target, view) :]
            finally:
                os.close(target)
        os.rename(part, file.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BadInput:
        return  # the office's copy is gone
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise
