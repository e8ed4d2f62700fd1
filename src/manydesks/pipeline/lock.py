"""The lake's lock: one writer at a time, in this process or any other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.errors import LakeBusy
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.place import check_place


@dataclass(frozen=True, kw_only=True)
class HeldLake:
    """A lake that this run alone may write; only `hold` makes one."""

    #: the lake's folder
    folder: Path


@contextmanager
def hold(lake: Path) -> Iterator[HeldLake]:
    """Holds the lake for writing, making its folder if need be. Raises `LakeBusy` at once if another run holds it,
    and `PipelineError` if the folder cannot be written.

    The kernel frees the lock when the process ends, however it ends.
    """
    check_place(lake)
    with disk_refusals(lake):
        lake.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(lake / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(file, 20, 0).decode().strip() or "unknown"
            raise LakeBusy(path=lake, pid=pid) from None
        with disk_refusals(lake):
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield HeldLake(folder=lake)
    finally:
        os.close(file)
