"""A jobs file, opened: one per process and path, however many queues are in use on it."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, TypeVar

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput
from manydesks.queue.ledger import JobsTransaction
from manydesks.queue.migrations import JOBS_FILE
from manydesks.store.boot import boot_id
from manydesks.store.database import SYNCHRONOUS, named_errors, open_writer
from manydesks.store.wake import PREFIX, Bell
from manydesks.store.writer import Writer

T = TypeVar("T")

#: claims of another boot: their clock is gone, and so are those who held them
EXPIRE_OTHER_BOOTS = "update claims set until = 0, boot = ?1 where boot <> ?1"


@dataclass(frozen=True)
class _Key:
    path: str
    durability: str
    clock: Clock | None
    boot: str
    pid: int


class JobsFile:
    """Use `JobsFile.open`, and `close` once for each."""

    _opened: ClassVar[dict[_Key, JobsFile]] = {}
    _lock = threading.Lock()

    def __init__(self, key: _Key) -> None:
        self.path = Path(key.path)
        self._key = key
        self._users = 0
        clock = key.clock or SystemClock()
        with contextlib.ExitStack() as undo:
            db = open_writer(self.path, key.durability, JOBS_FILE)
            undo.callback(db.close)
            self._inode = self.path.stat().st_ino
            self._ears = str(ear_folder(self.path))
            self._bell = Bell(ear_folder(self.path))
            undo.callback(self._bell.close)
            with named_errors(self.path):
                JOBS_FILE.migrate(db, key.path, clock.now())
            self.writer = Writer(
                db,
                self.path,
                transaction=JobsTransaction,
                clock=clock,
                boot=key.boot,
                committed=self._ring,
            )
            self.writer.run(lambda tx: tx.run(EXPIRE_OTHER_BOOTS, (key.boot,)))
            undo.pop_all()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, durability: str, clock: Clock | None, boot: str | None) -> JobsFile:
        if durability not in tuple(SYNCHRONOUS):
            raise BadInput(f"durability is 'power' or 'crash', not {durability!r:.60}.")
        real = _path(path)
        key = _Key(real, durability, clock, boot or boot_id(), os.getpid())
        with cls._lock:
            file = cls._opened.get(key)
            if file is None or not file.is_still_there():
                file = cls._opened[key] = cls(key)
            file._users += 1
            return file

    def close(self) -> None:
        with self._lock:
            if self._users == 1:
                self.writer.refuse_inside()
            self._users -= 1
            if self._users > 0:
                return
            if self._opened.get(self._key) is self:
                del self._opened[self._key]
        self.writer.close()
        self._bell.close()

    def is_still_there(self) -> bool:
        """Whether its name still means this file: somebody may have moved or deleted it."""
        try:
            return self._inode == self.path.stat().st_ino
        except OSError:
            return False

    def _ring(self) -> None:
        """After every commit that made something ready. To most files nobody has ever listened: asking is cheaper than
        what the bell does to find nobody."""
        if os.access(self._ears, os.F_OK):
            self._bell.ring()

    def within(self, tx: JobsTransaction, operation: Callable[[JobsTransaction], T]) -> T:
        """Run a verb in a caller's transaction on this file."""
        if not self.writer.owns(tx) or not tx.db.in_transaction:
            raise BadInput(f"`tx` must be an open transaction of a queue in {self.path}, made by this process.")
        return operation(tx)

    def ear(self) -> Path | None:
        """Where a listener of this process may be rung after every commit that made something ready; None: nowhere."""
        folder = ear_folder(self.path)
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{PREFIX}{os.getpid()}-{secrets.token_hex(3)}" if _is_private(folder) else None

    def tidy_ears(self) -> None:
        """The last to leave takes the folder along; whoever comes in just then has the slow poll."""
        with contextlib.suppress(OSError):
            ear_folder(self.path).rmdir()


def _path(given: str | os.PathLike[str]) -> str:
    try:
        path = os.fspath(given)
        path.encode()
    except (TypeError, AttributeError, UnicodeEncodeError) as error:
        raise BadInput(f"The path of a jobs file is text that is valid UTF-8, not {given!r:.60}.") from error
    return os.path.realpath(path)


def ear_folder(path: Path) -> Path:
    """Where the processes of one user that use this file meet. Short: a socket's path has 108 bytes."""
    return Path("/tmp") / f"manydesks-{os.geteuid()}-{sha256(os.fsencode(path)).hexdigest()[:12]}"


def _is_private(folder: Path) -> bool:
    """Whether nobody else could have put something there; without it the slow poll has to do."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
