"""The lake's lock: one writer at a time, in this process or any other.

`.lock` is the right to write. Who waits for it waits behind `.next`, so that a writer which comes back at once, as
`watch` does, finds somebody before it. Both are files of this machine: for a lake that lies elsewhere they are in the
office's home, and against another office stands what each commit compares (`commit.py`).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from manydesks.domain.errors import LakeBusy, LakeWatched
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.place import Place, check_place, here

LOCK = ".lock"
NEXT = ".next"
WATCH = ".watch"

#: how long a command waits for a lake that somebody works on: `watch` lets go of it after each round
PATIENCE_SECONDS = 30.0
RETRY_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class HeldLake:
    """A lake that this run alone may write; only `hold` makes one."""

    #: the lake
    folder: Place
    #: of a lake that other machines may write too: the newest commit of each table that this run knows of
    versions: dict[str, int] = field(default_factory=dict)


def _wait(pid: str) -> None:
    """Says nothing."""


@contextmanager
def hold(lake: Place, *, patience: float = 0.0, waits: Callable[[str], None] = _wait) -> Iterator[HeldLake]:
    """Holds the lake for writing, making its folder if need be. Raises `LakeBusy` if another run holds it and does not
    let go within `patience` seconds, and `PipelineError` if the folder cannot be written.

    `waits` is called with the other's process again and again while it is waited for; what it raises ends the waiting.
    The kernel frees the lock when the process ends, however it ends.
    """
    with _opened(lake, LOCK) as lock:
        with _opened(lake, NEXT) as turn:
            deadline = time.monotonic() + patience
            for file in (turn, lock):
                while not _take(file):
                    pid = _signed(lock)
                    if time.monotonic() >= deadline:
                        raise LakeBusy(path=lake, pid=pid)
                    waits(pid)
                    time.sleep(RETRY_SECONDS)
        _sign(lake, lock)
        yield HeldLake(folder=lake)


@contextmanager
def watching(lake: Place) -> Iterator[None]:
    """One `watch` at a time. Raises `LakeWatched` at once if there is another; others may write between its rounds."""
    with _opened(lake, WATCH) as file:
        if not _take(file):
            raise LakeWatched(path=lake, pid=_signed(file))
        _sign(lake, file)
        yield


def worker(lake: Place) -> str | None:
    """The process that holds the lake for writing just now; None: nobody does. Makes and changes nothing."""
    return _holder(lake, LOCK)


def watcher(lake: Place) -> str | None:
    """The process of the `watch` that is there, also between its rounds; None: there is none."""
    return _holder(lake, WATCH)


def _holder(lake: Place, name: str) -> str | None:
    with disk_refusals(lake):
        try:
            file = os.open(here(lake) / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
    try:
        # shared: of two who only look, neither takes the other for a writer
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signed(file)
    finally:
        os.close(file)
    return None


@contextmanager
def _opened(lake: Place, name: str) -> Iterator[int]:
    check_place(lake)
    folder = here(lake)
    with disk_refusals(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _take(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(lake: Place, file: int) -> None:
    with disk_refusals(lake):
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)


def _signed(file: int) -> str:
    return os.pread(file, 20, 0).decode().strip() or "unknown"
