"""Opening SQLite files the one right way, and naming what can go wrong with them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import apsw

from manydesks.domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from manydesks.store import forks, patience
from manydesks.store.migrations import OFFICE
from manydesks.store.schema import Schema

#: versions up to 3.51.2 can lose committed writes when one connection writes while another checkpoints
OLDEST_SQLITE = (3, 51, 3)

SYNCHRONOUS = {"power": "full", "crash": "normal"}

#: far more than there are: each that is used takes the place of the one that was used longest ago, often used or not
CACHED_STATEMENTS = 1024

#: what a row leaves behind in a page that is written anyway is overwritten: it costs nothing, and less is left to find
SECURE_DELETE = "fast"

#: the -shm file grows by that much at a time
SHARED_MEMORY_BYTES = 32_768
CUT_SHORT = frozenset({apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS})


def check_engine() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"The SQLite inside apsw is {apsw.sqlite_lib_version()}, which can lose writes; "
            f"{oldest} or later is needed: `pip install --upgrade apsw`."
        )


def open_writer(path: Path, durability: str, schema: Schema = OFFICE) -> apsw.Connection:
    """The write connection: whoever opens it holds the right to write."""
    check_engine()
    forks.refuse_inherited(path)
    _create_private(path)
    with named_errors(path):
        _look_first(path, schema)
        db = apsw.Connection(str(path), statementcachesize=CACHED_STATEMENTS)
        forks.remember(db, path)
        try:
            _keep_plans(db)
            db.set_busy_timeout(int(patience.BUSY_SECONDS * 1000))
            # this one does not ask the busy handler
            patience.patiently(lambda: db.execute("pragma journal_mode = wal").fetchall())
            db.execute(f"pragma synchronous = {SYNCHRONOUS[durability]}")
            db.execute("pragma foreign_keys = on")
            db.execute("pragma temp_store = memory")
            db.execute("pragma cache_size = -16000")
            db.execute(f"pragma secure_delete = {SECURE_DELETE}").fetchall()
        except BaseException:
            db.close()
            raise
    return db


def empty_log(db: apsw.Connection) -> bool:
    """All that was committed goes into the file itself, and the log is cut to nothing. False: a reader needs it."""
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    return True


def open_reader(path: Path) -> apsw.Connection:
    """A read-only connection: it never checkpoints and never waits for the writer."""
    check_engine()
    if not path.exists():
        raise StoreError(f"There is no store at {path}; `manydesks up` makes it.")
    forks.refuse_inherited(path)
    with named_errors(path):
        # on a read-only disk nobody can write, and a reader cannot make the -shm it would need: nothing to watch for
        frozen = not os.access(path.parent, os.W_OK) and not _has_log(path)
        uri = f"file:{_uri_path(path)}?{'immutable=1' if frozen else 'mode=ro'}"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        db = apsw.Connection(uri, flags=flags, statementcachesize=CACHED_STATEMENTS)
        forks.remember(db, path)
        _keep_plans(db)
        db.set_busy_timeout(int(patience.BUSY_SECONDS * 1000))
        db.execute("pragma query_only = on")
    return db


def _keep_plans(db: apsw.Connection) -> None:
    """Without this SQLite prepares a statement anew for each value that is bound where a partial index is concerned:
    three quarters of the time of the statement that finds the next row to claim."""
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _has_log(path: Path) -> bool:
    """Whether commits wait in the -wal file: an immutable reader would not see them."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _create_private(path: Path) -> None:
    """SQLite would make the file as the umask says, and its -wal and -shm after it: nobody else reads this one.

    A file that is there is only asked about, never opened: closing it would drop every lock that this process has on
    it, those of its open connections among them.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        if not path.is_file():
            raise StoreReadOnly(path=path, reason="it is not a file") from error
        if not os.access(path, os.R_OK | os.W_OK):
            read_only = os.statvfs(path).f_flag & os.ST_RDONLY
            raise StoreReadOnly(path=path, reason=os.strerror(errno.EROFS if read_only else errno.EACCES)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StoreFull(path=path) from error
        raise StoreReadOnly(path=path, reason=error.strerror) from error


def _look_first(path: Path, schema: Schema) -> None:
    """Refuse what is not ours to write before the first write: opening for writing already moves the log's pages."""
    if path.stat().st_size == 0:
        return
    db = open_reader(path)
    try:
        schema.refuse_foreign(db, str(path))
        schema.refuse_newer(db, str(path))
    except apsw.ReadOnlyError:
        pass  # a crash left a rollback journal; only a writer can look behind it
    finally:
        db.close()


def _uri_path(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


@contextlib.contextmanager
def named_errors(path: Path | str) -> Iterator[None]:
    """SQLite's errors under the names that the rest of the project, and a person, can act on."""
    try:
        yield
    except apsw.FullError as error:
        raise StoreFull(path=path) from error
    except apsw.BusyError as error:
        raise StoreBusy(path=path, seconds=f"{patience.BUSY_SECONDS:g}") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreCorrupt(path=path, reason=error) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        if isinstance(error, apsw.CantOpenError) and _is_full(path):
            raise StoreFull(path=path) from error
        raise StoreReadOnly(path=path, reason=error) from error
    except apsw.IOError as error:
        if getattr(error, "extendedresult", 0) in CUT_SHORT:
            raise StoreCorrupt(path=path, reason="a part of it is missing") from error
        if _is_full(path):
            raise StoreFull(path=path) from error
        raise StoreError(f"The disk of {path} failed: {error}. Nothing was changed.") from error


def _is_full(path: Path | str) -> bool:
    """Whether the disk has no room for what SQLite makes beside a file; of that it only says that it failed."""
    try:
        disk = os.statvfs(Path(path).parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < SHARED_MEMORY_BYTES or (disk.f_files > 0 and disk.f_favail == 0)
