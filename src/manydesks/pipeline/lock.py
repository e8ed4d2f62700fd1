"""The lake's lock: one writer at a time, in this process or any other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.errors import LakeBusy, PipelineError


@dataclass(frozen=True, kw_only=True)
class HeldLake:
    """A lake that this run alone may write; only `hold` makes one."""

    #: the lake's folder
    folder: Path


@contextmanager
def hold(lake: Path) -> Iterator[HeldLake]:
    """Holds the lake for writing, making its folder if need be. Raises `LakeBusy` at once if another run holds it.

    The kernel frees the lock when the process ends, however it ends.
    """
    if "%" in str(lake.absolute()):
        # delta-rs decodes it half of the time and then looks for its log in another folder
        raise PipelineError(reason=f"the lake {lake} must not have a '%' in its path.")
    lake.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = lake / ".lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(file, 20, 0).decode().strip() or "unknown"
            raise LakeBusy(path=lake, pid=pid) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield HeldLake(folder=lake)
    finally:
        os.close(file)
