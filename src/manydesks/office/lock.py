"""Who may write: two kernel locks, freed by the kernel when their holder dies.

`run/host.lock` says that a host runs, or is starting; `run/office.lock` is the right to write the store. A host holds
both for its whole life, a command without a host holds the second for its one write. Since commands keep away once a
host has announced itself by the first, a starting host never waits for more than the writes that are under way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from manydesks.domain.errors import AlreadyRunning, HomeError, StoreBusy
from manydesks.settings.home import Home, reason_of

#: how long a host that starts, or a command, waits for another command's one write
WAIT_SECONDS = 5.0

RETRY_SECONDS = 0.01

#: a child that a host was starting when it was killed has the host's locks until it becomes another program: this long
#: at most is waited for that
CHILD_SECONDS = 1.0

HOST_LOCK = "host.lock"
WRITE_LOCK = "office.lock"


class KernelLock:
    """One lock file; not for use by several threads."""

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self._path = home.run / name
        self._file: int | None = None

    def take(self, *, shared: bool = False) -> bool:
        """Try once; True if it is ours now."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeError(home=self._home.path, reason=f"{self._path}: {reason_of(error)}.") from error
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def sign(self) -> None:
        """Leave our process id for people and commands; the lock itself is the truth."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise HomeError(home=self._home.path, reason=f"{self._path}: {reason_of(error)}.") from error

    def signed(self) -> int | None:
        try:
            return int(self._path.read_bytes())
        except (OSError, ValueError):
            return None


def running_host(home: Home) -> int | None:
    """The process id of the host that runs or starts (0: it has not signed yet); None: there is none."""
    if not home.run.is_dir():
        return None
    lock = KernelLock(home, HOST_LOCK)
    deadline = time.monotonic() + CHILD_SECONDS
    while not lock.take(shared=True):
        pid = lock.signed()
        # a process that is not to be seen from here may run all the same: in a container, say
        if pid is None or _is_there(pid) or time.monotonic() > deadline:
            return pid or 0
        time.sleep(RETRY_SECONDS)
    lock.drop()
    return None


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


def beat(home: Home) -> None:
    """A host says that it still turns: by the time of its lock file. A disk that refuses only makes it look stuck."""
    with contextlib.suppress(OSError):
        os.utime(home.run / HOST_LOCK)


def last_beat(home: Home) -> int | None:
    """When the host last said so, milliseconds UTC."""
    try:
        return (home.run / HOST_LOCK).stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


@contextlib.contextmanager
def host_locks(home: Home) -> Iterator[None]:
    """Both locks, for a host. AlreadyRunning: another one has them."""
    host = KernelLock(home, HOST_LOCK)
    while not host.take():
        # a command that only looked holds it, shared, for microseconds; a host for its life
        if (pid := running_host(home)) is not None:
            raise AlreadyRunning(home=home.path, pid=pid or "unknown")
    try:
        host.sign()
        with write_lock(home):
            yield
    finally:
        host.drop()


@contextlib.contextmanager
def write_lock(home: Home, *, gives_way: bool = False) -> Iterator[bool]:
    """The right to write, waited for: True. StoreBusy: somebody else kept it.

    `gives_way`: False, without the right, as soon as a host runs, which keeps the lock for its life.
    """
    lock = KernelLock(home, WRITE_LOCK)
    deadline = time.monotonic() + WAIT_SECONDS
    while not lock.take():
        if gives_way and running_host(home) is not None:
            yield False
            return
        if time.monotonic() > deadline:
            raise StoreBusy(path=home.office_db, seconds=f"{WAIT_SECONDS:g}")
        time.sleep(RETRY_SECONDS)
    try:
        yield True
    finally:
        lock.drop()
