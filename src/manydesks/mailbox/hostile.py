"""Reading a file that the desk wrote, and may have forged, without doing anything that it could want.

The desk owns every name in `out/` and may change it between any two system calls, so the host never lets SQLite open a
name there. It makes a hard link of the file in its own part of the session's folder, which is mounted nowhere, and
looks at that:

* a hard link is made without following symlinks, and what it names cannot be swapped any more: no race;
* locks belong to the file, not to its name, so the desk's writes and the host's reads still exclude each other;
* SQLite derives the names of journal and WAL from the name that it opens: it finds none, so a forged journal, which
  could rewrite this file or name another one for deletion, is never read.

What the link hides is a journal that matters: after a killed write the file is half changed and only its journal can
repair it. So, under the shared lock, the journal in `out/` is looked at by its first bytes. A live writer has written
the journal's magic number only while it holds the exclusive lock, hence what is seen here is a journal left behind: the
file is refused until the desk has opened it.

The file itself is not opened with `os.open`: closing such a descriptor would drop the locks of an in-process desk.

Whoever is neither host nor desk reads the host's own file in the same way: a desk without a sandbox can write it too.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.errors import MailboxRefused, MailboxTimeout
from manydesks.mailbox.connection import LOCK_SECONDS, SQLITE_BUSY, connected, primary
from manydesks.mailbox.schema import INBOUND, OUTBOUND
from manydesks.mailbox.validation import MAX_CONTENT, MAX_INBOUND, RowError

NAME = "outbound.db"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of a mailbox's two files."""

    #: its name in its folder
    name: str
    #: who writes it, and so repairs it
    owner: str
    #: the statements that make its tables, by each schema that is known
    tables: tuple[frozenset[str], ...]
    #: the longest content that it may hold
    content_bytes: int

    @property
    def beside(self) -> tuple[str, str, str]:
        """Names that SQLite looks at when it opens the file: what lies there can keep its owner from opening it."""
        return f"{self.name}-journal", f"{self.name}-wal", f"{self.name}-shm"


OUT = Side(
    name=NAME,
    owner="the desk",
    tables=tuple(frozenset(tables) for tables in OUTBOUND.values()),
    content_bytes=MAX_CONTENT,
)
#: SQLite makes the last one by itself, for a number that is never given twice
IN = Side(
    name="inbound.db",
    owner="the office",
    tables=(frozenset({*INBOUND, "CREATE TABLE sqlite_sequence(name,seq)"}),),
    content_bytes=MAX_INBOUND,
)
BESIDE = OUT.beside
#: how a reason begins that says nothing about the file
NOT_LINKED = "it cannot be linked for reading"
#: of CPU
READ_SECONDS = 2.0
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
SQLITE_INTERRUPT = 9
#: how many steps of SQLite's machine lie between two looks at the clock: some 100 µs
PROGRESS_STEPS = 2_000

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def outbound(
    out: Path, private: Path, *, token: str, cap_bytes: int, read_seconds: float = READ_SECONDS
) -> Iterator[sqlite3.Connection | None]:
    """The desk's file inside one read transaction, its tables known to be ours; None when there is none yet.

    `private` is a folder on the same file system that no desk can reach; `token` a name that nobody else uses there.
    """
    with looked_into(out, OUT, private, token=token, cap_bytes=cap_bytes, read_seconds=read_seconds) as connection:
        yield connection


@contextmanager
def looked_into(
    place: Path,
    side: Side,
    private: Path,
    *,
    token: str,
    cap_bytes: int,
    read_seconds: float = READ_SECONDS,
    lock_seconds: float = LOCK_SECONDS,
) -> Iterator[sqlite3.Connection | None]:
    """Either file of a mailbox, in its folder `place`; as `outbound`, which is how the host looks at one of them."""

    def refuse(reason: str, *, hot: bool = False) -> MailboxRefused:
        return MailboxRefused(path=place / side.name, reason=reason, hot=hot)

    try:
        folder = os.open(place, _DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise refuse(f"{place.name}/ is not a folder ({error.strerror})") from None
    try:
        private.mkdir(mode=0o700, exist_ok=True)
        _nothing_odd(folder, side, refuse)
        with _linked(folder, side, private / token, refuse) as link:
            if link is None:
                yield None
                return
            size = _size(link, cap_bytes, refuse)
            try:
                with connected(link, "ro", timeout=lock_seconds) as connection:
                    _harden(connection, side, read_seconds)
                    if not _begin(connection, side, size, refuse):
                        yield None
                        return
                    # the name has done its work: a host that is killed from here on leaves none behind
                    link.unlink()
                    _no_journal(folder, side, refuse)
                    yield connection
            except sqlite3.Error as error:
                if primary(error) == SQLITE_BUSY:
                    raise MailboxTimeout(path=place / side.name, seconds=lock_seconds) from None
                if primary(error) == SQLITE_INTERRUPT:
                    raise refuse(f"reading it took more than {read_seconds} s of work") from None
                raise refuse(f"SQLite cannot read it ({error})") from None
            except RowError as error:
                raise refuse(str(error)) from None
    finally:
        os.close(folder)


@contextmanager
def _linked(folder: int, side: Side, link: Path, refuse: Callable[[str], MailboxRefused]) -> Iterator[Path | None]:
    _unlink(link)
    try:
        found = os.stat(side.name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise refuse("it is not a regular file")
        os.link(side.name, link, src_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise refuse(f"{NOT_LINKED} ({error.strerror})") from None
    try:
        yield link
    finally:
        _unlink(link)


def _unlink(link: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{link}{suffix}")  # noqa: PTH108 - four names from one, on every collect


def _size(link: Path, cap_bytes: int, refuse: Callable[[str], MailboxRefused]) -> int:
    found = link.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise refuse("it is not a regular file")
    if found.st_size > cap_bytes:
        raise refuse(f"it has {found.st_size} bytes, {cap_bytes} are allowed")
    return found.st_size


def _harden(connection: sqlite3.Connection, side: Side, read_seconds: float) -> None:
    # of this thread's own work: on a busy machine a good file takes long, too
    deadline = time.thread_time() + read_seconds
    connection.set_progress_handler(lambda: time.thread_time() > deadline, PROGRESS_STEPS)
    # Content is capped anyway; this cap is on what SQLite itself builds in memory for one value or row.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * side.content_bytes)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA cell_size_check = ON")
    # a mapped file that the desk cuts short would end the host with SIGBUS
    connection.execute("PRAGMA mmap_size = 0")


def _begin(connection: sqlite3.Connection, side: Side, size: int, refuse: Callable[[str], MailboxRefused]) -> bool:
    """Take the shared lock and check that the tables are ours; False for a file without any, just being made."""
    connection.execute("BEGIN")
    # a forged schema may hold any number of objects; ours has fewer than twenty
    objects = connection.execute("SELECT type, name, sql FROM sqlite_schema LIMIT 50").fetchall()
    # A WAL header (bytes 18 and 19) makes SQLite report `wal`. Its WAL would lie beside the link, where there is none.
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        raise refuse("its header says WAL; a mailbox has a rollback journal")
    if not objects:
        if size == 0:
            return False
        raise refuse("it has no tables")
    made = {sql for _, _, sql in objects if sql is not None}
    if any(sql is None and kind != "index" for kind, _, sql in objects) or made not in side.tables:
        raise refuse("its tables are not those of a mailbox")
    return True


def _nothing_odd(folder: int, side: Side, refuse: Callable[[str], MailboxRefused]) -> None:
    """Beside the file lies its journal, or nothing; a mailbox has no WAL."""
    journal, *_ = side.beside
    for name in side.beside:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise refuse(f"'{name}' cannot be looked at ({error.strerror})") from None
        if name != journal:
            raise refuse(f"'{name}' lies beside it; a mailbox has a rollback journal")
        if not stat.S_ISREG(found.st_mode):
            raise refuse("its journal is not a regular file")


def _no_journal(folder: int, side: Side, refuse: Callable[..., MailboxRefused]) -> None:
    try:
        journal = os.open(side.beside[0], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise refuse(f"its journal is not a regular file ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(journal).st_mode):
            raise refuse("its journal is not a regular file")
        if os.read(journal, len(JOURNAL_MAGIC)) == JOURNAL_MAGIC:
            why = f"a hot journal lies beside it; {side.owner} repairs it when it next opens its mailbox"
            raise refuse(why, hot=True)
    finally:
        os.close(journal)
