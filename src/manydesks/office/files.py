"""Files that desks and people send: taken into the home's `files/` before the row that names them.

They are swept when no row names them any more, and so are the copies in the inboxes of desks.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from manydesks.domain.attachment import MAX_FILE_BYTES, MAX_FILES, Attachment, NotTaken, Taken, is_file_name
from manydesks.domain.clock import Clock
from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Collected
from manydesks.mailbox import outbox
from manydesks.settings.home import Home, reason_of
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: a file is there before its row; what is younger than this may still get one
SWEEP_MS = 3_600_000


def receive(session: Path, found: Collected, files: Path) -> dict[str, Taken]:
    """Copy what the rows of a page name, by the row's id. Blocks. What cannot be taken says why; nothing is raised."""
    taken: dict[str, Taken] = {}
    for row in found.messages:
        names = row.content.get("files")
        if row.kind != "chat" or not isinstance(names, list) or not names:
            continue
        wanted = list(dict.fromkeys(str(name) for name in names[: MAX_FILES + 1]))
        taken[row.id] = tuple(_one(session, row.id, name, files) for name in wanted[:MAX_FILES])
        if len(names) > MAX_FILES:
            taken[row.id] += (NotTaken(name="…", reason=f"at most {MAX_FILES} files go with one message"),)
    return taken


def clear(session: Path, taken: dict[str, Taken]) -> None:
    """The rows are stored: what lies in the outbox for them may go. Blocks."""
    for id in taken:
        outbox.discard(session, id)


def _one(session: Path, id: str, name: str, files: Path) -> Attachment | NotTaken:
    shown = name if is_file_name(name) else "a file"
    try:
        return outbox.collect(session, id, name, files)
    except BadInput as error:
        return NotTaken(name=shown, reason=str(error))
    except OSError as error:
        log.error("A file could not be taken: %s", error, extra={"action": "file_not_taken"})
        return NotTaken(name=shown, reason=reason_of(error))


def keep_file(given: str, files: Path) -> Attachment:
    """Copy a person's file into `files`, on the disk when this returns. Blocks. BadInput says why it is not taken."""
    path = Path(given)
    try:
        # a pipe without a writer must not hold anybody up
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"The file {given!r} cannot be read: {reason_of(error)}.") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{given!r} is not a regular file.")
        if not is_file_name(path.name):
            raise BadInput(f"The file {given!r} has a name that cannot be sent; give it a plain one.")
        if status.st_size > MAX_FILE_BYTES:
            raise BadInput(f"The file {given!r} has {status.st_size} bytes; at most {MAX_FILE_BYTES} can be sent.")
        return outbox.keep(handle, path.name, files)
    except OSError as error:
        raise BadInput(f"The file {given!r} cannot be taken: {reason_of(error)}.") from None
    finally:
        os.close(handle)


def keep_text(text: str, name: str, files: Path) -> Attachment:
    """A text as a file of the office, on the disk when this returns; the same text is the same file. Blocks."""
    return keep_bytes(text.encode(), name, files)


def keep_bytes(data: bytes, name: str, files: Path) -> Attachment:
    """What somebody sent along with a message, as `keep_text`. BadInput for a name that a file cannot have."""
    if not is_file_name(name):
        raise BadInput(f"{name[:60]!r} is no name for a file; give it a plain one.")
    with tempfile.TemporaryFile() as whole:
        whole.write(data)
        whole.flush()
        os.lseek(whole.fileno(), 0, os.SEEK_SET)
        return outbox.keep(whole.fileno(), name, files)


def text_path(text: str, name: str, files: Path) -> str:
    """Where `keep_text` keeps it, in the home."""
    return outbox.kept_path(hashlib.sha256(text.encode()).hexdigest(), name, files)


def kept_files(given: object, home: Home) -> tuple[Attachment, ...]:
    """What `keep_file` has taken, as another process tells it: each is looked at before a row may name it."""
    if not isinstance(given, list) or not all(isinstance(value, dict) for value in given):
        raise BadInput("'files' must be a list of objects with name, bytes, sha256 and path.")
    return tuple(_kept(value, home) for value in given)


def _kept(value: dict[str, Any], home: Home) -> Attachment:
    name, digest = value.get("name"), value.get("sha256")
    if not is_file_name(name) or not isinstance(digest, str) or re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise BadInput("A file has a plain name, and the hash of what is in it.")
    path = f"{home.files.name}/{digest[:32]}/{name}"
    try:
        status = (home.path / path).lstat()
    except OSError as error:
        raise BadInput(f"The office has no file '{path}': {reason_of(error)}.") from None
    if value.get("path") != path or not stat.S_ISREG(status.st_mode) or value.get("bytes") != status.st_size:
        raise BadInput(f"The file '{path}' is not what was sent.")
    return Attachment(name=str(name), bytes=status.st_size, sha256=digest, path=path)


async def sweep(store: Store, home: Home, clock: Clock) -> int:
    """Remove what no row names and nobody is about to name; how many folders went."""
    before = clock.now() - SWEEP_MS
    old = await asyncio.to_thread(_old, [home.files], before)
    inboxes = await asyncio.to_thread(_inboxes, home.sessions)
    handed = await asyncio.to_thread(_old, inboxes, before)
    # asked after the look: whoever took a file again since then has made its folder young
    named = {Path(path).parent.name for path in await store.named_files()} if old else set()
    known = await store.known_messages([path.name for path in handed]) if handed else set()
    gone = [path for path in old if path.name not in named] + [path for path in handed if path.name not in known]
    await asyncio.to_thread(_remove, gone)
    return len(gone)


def _inboxes(sessions: Path) -> list[Path]:
    found = sessions.glob("*/*/in/inbox")
    return [inbox for inbox in found if not any(path.is_symlink() for path in (inbox, *list(inbox.parents)[:3]))]


def _old(folders: Iterable[Path], before: int) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        try:
            found += [path for path in folder.iterdir() if path.lstat().st_mtime_ns // 1_000_000 < before]
        except OSError as error:
            log.warning("%s cannot be swept: %s", folder, error, extra={"action": "sweep_failed"})
    return found


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
