"""An answer that is too long for a message was paid for: its beginning is said, and all of it goes along as a file."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from manydesks.domain.errors import BadInput
from manydesks.mailbox import outbox
from manydesks.mailbox.validation import RowError, pack

log = logging.getLogger(__name__)

#: what is said of a longer answer; it fits into a row whatever its characters are
SAID_CHARS = 100_000
FILE = "answer.txt"


def fits(text: str) -> bool:
    try:
        pack({"text": text, "files": []})
    except RowError:
        return False
    return True


def shortened(text: str, folder: Path | None, id: str) -> tuple[str, list[str]]:
    """What to say in the message `id`, and the names of the files that go with it; they are in the outbox then. Blocks.

    Without an outbox, or where it takes no file, the message says that the rest is lost.
    """
    if fits(text):
        return text, []
    said, whole = text[:SAID_CHARS], f"The answer has {len(text)} characters, too many for a message"
    try:
        if folder is None:
            raise BadInput("this desk sends no files")
        _leave(text, folder, id)
    except (BadInput, OSError) as error:
        log.error("A long answer could not be kept as a file: %s", error, extra={"action": "answer_cut"})
        return f"{said}…\n\n({whole}; the rest could not be kept: {error}.)", []
    return f"{said}…\n\n({whole}: all of it is in {FILE}.)", [FILE]


def _leave(text: str, folder: Path, id: str) -> None:
    with tempfile.TemporaryFile() as whole:
        whole.write(text.encode())
        whole.flush()
        os.lseek(whole.fileno(), 0, os.SEEK_SET)
        outbox.leave(folder, id, FILE, whole.fileno())
