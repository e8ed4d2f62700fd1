"""Takes rows out of a mailbox so that their bytes are gone too, each file by the side that owns it.

Deleted pages are overwritten, and the journal that held them for the length of the write is emptied.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manydesks.domain.errors import BadInput, MailboxError, MailboxTimeout
from manydesks.mailbox.connection import LOCK_SECONDS, SQLITE_BUSY, connected, primary, transaction

#: in `in/`: which rows the desk's side shall let go of; names only
ORDER = "forget.json"


def inbound(folder: Path, messages: Sequence[str]) -> int:
    """The host's side: these messages, and what was told to runners that have ended. How many messages went."""
    path = folder / "in" / "inbound.db"
    if not path.exists():
        return 0
    with _overwriting(path) as connection:
        gone = connection.executemany("DELETE FROM messages_in WHERE id = ?", _each(messages)).rowcount
        # answers to questions among them; a runner that starts later does not hear these words
        connection.execute("DELETE FROM control")
        return max(gone, 0)


def outbound(folder_out: Path, runs: Sequence[str], messages: Sequence[str]) -> int:
    """The desk's side: all that was said and done in these runs, and said to these messages. How many rows went.

    For use where `DeskMailbox` may be used. Numbers that were given stay given.
    """
    path = folder_out / "outbound.db"
    if not path.exists():
        return 0
    with _overwriting(path) as connection:
        before = connection.total_changes
        connection.executemany("DELETE FROM messages_out WHERE run = ?", _each(runs))
        connection.executemany("DELETE FROM messages_out WHERE in_reply_to = ?", _each(messages))
        connection.executemany("DELETE FROM steps WHERE run = ?", _each(runs))
        # what ended a message stays: without it the desk would begin it again
        connection.executemany("UPDATE acks SET reason = NULL WHERE run = ? AND reason IS NOT NULL", _each(runs))
        return connection.total_changes - before


def write_order(folder_in: Path, runs: Sequence[str], messages: Sequence[str]) -> Path:
    """For a desk that does it by itself; whoever writes it removes it."""
    path = folder_in / ORDER
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"runs": list(runs), "messages": list(messages)}, file)
    return path


def follow_order(folder_in: Path, folder_out: Path) -> int:
    """At the desk: do what the order says."""
    try:
        order = json.loads((folder_in / ORDER).read_text(encoding="utf-8"))
        return outbound(folder_out, list(order["runs"]), list(order["messages"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"The order {folder_in / ORDER} cannot be read: {error}.") from None


def _each(names: Iterable[str]) -> list[tuple[Any, ...]]:
    return [(name,) for name in names]


@contextmanager
def _overwriting(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with connected(path, "rw") as connection:
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute("PRAGMA secure_delete = ON")
            with transaction(connection):
                yield connection
            # free space that was left by rows which had moved, or grown, before anybody asked to overwrite it
            connection.execute("VACUUM")
    except sqlite3.Error as error:
        if primary(error) == SQLITE_BUSY:
            raise MailboxTimeout(path=path, seconds=LOCK_SECONDS) from error
        raise MailboxError(reason=f"{path}: {error}") from error
