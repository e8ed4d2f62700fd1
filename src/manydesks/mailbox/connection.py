"""Opening one SQLite file for one short piece of work."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote_from_bytes

#: how long either side waits for the other's lock
LOCK_SECONDS = 2.0

SQLITE_BUSY = 5
SQLITE_READONLY_ROLLBACK = 8 | (3 << 8)
SQLITE_CORRUPT = 11
SQLITE_FULL = 13
SQLITE_CANTOPEN = 14
SQLITE_NOTADB = 26


def primary(error: sqlite3.Error) -> int:
    """The engine's error number without its detail; 0 when the module itself complained."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def detailed(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0)


@contextmanager
def connected(
    path: Path, mode: Literal["ro", "rw", "rwc"], *, timeout: float = LOCK_SECONDS
) -> Iterator[sqlite3.Connection]:
    """A connection without implicit transactions, closed at the end."""
    # as `Path.as_uri` makes it, in a quarter of the time: this is done some ten times for every message
    uri = f"file://{quote_from_bytes(os.fsencode(path if path.is_absolute() else path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, cached_statements=16)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, with the write lock from the start."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
