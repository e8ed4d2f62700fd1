"""Files that desks send: taken into the home's `files/` before the row that names them, and swept when no row does."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from manydesks.domain.attachment import MAX_FILES, Attachment, NotTaken, Taken, is_file_name
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


async def sweep(store: Store, home: Home, clock: Clock) -> int:
    """Remove what no row names and nobody is about to name; how many folders went."""
    old = await asyncio.to_thread(_old, home.files, clock.now() - SWEEP_MS)
    if not old:
        return 0
    # asked after the look: whoever took a file again since then has made its folder young
    named = {Path(path).parent.name for path in await store.named_files()}
    gone = [path for path in old if path.name not in named]
    await asyncio.to_thread(_remove, gone)
    return len(gone)


def _old(files: Path, before: int) -> list[Path]:
    try:
        return [path for path in files.iterdir() if path.lstat().st_mtime_ns // 1_000_000 < before]
    except OSError as error:
        log.warning("%s cannot be swept: %s", files, error, extra={"action": "sweep_failed"})
        return []


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
