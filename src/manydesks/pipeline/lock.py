"""The lake's lock: one writer at a time, in this process or any other.

`.lock` is the right to write. Who waits for it waits behind `.next`, so that a writer which comes back at once, as
`watch` does, finds somebody before it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.errors import LakeBusy, LakeWatched
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.place import check_place

LOCK = ".lock"
NEXT = ".next"
WATCH = ".watch"

#: how long a command waits for a lake that somebody works on: `watch` lets go of it after each round
PATIENCE_SECONDS = 30.0
RETRY_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class HeldLake:
    """A lake that this run alone may write; only `hold` makes one."""

    #: the lake's folder
    folder: Path


def _wait(pid: str) -> None:
    """Says nothing."""


@contextmanager
def hold(lake: Path, *, patience: float = 0.0, waits: Callable[[str], None] = _wait) -> Iterator[HeldLake]:
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
def watching(lake: Path) -> Iterator[None]:
    """One `watch` at a time. Raises `LakeWatched` at once if there is another; others may write between its rounds."""
    with _opened(lake, WATCH) as file:
        if not _take(file):
            raise LakeWatched(path=lake, pid=_signed(file))
        _sign(lake, file)
        yield


@contextmanager
def _opened(lake: Path, name: str) -> Iterator[int]:
    check_place(lake)
    with disk_refusals(lake):
        lake.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(lake / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def _sign(lake: Path, file: int) -> None:
    with disk_refusals(lake):
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)


def _signed(file: int) -> str:
    return os.pread(file, 20, 0).decode().strip() or "unknown"
