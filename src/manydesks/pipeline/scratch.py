"""A folder of a process's own, for all that its Spark and its Java write beside the lake; it can grow to the size of
the lake. Those of processes that were killed are removed when the next one begins.

Each has a lock beside it that its process holds: the kernel frees it, however the process ends.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import shutil
from pathlib import Path

LOCK = ".lock"

#: what this process has, with the locks that it holds to its end; by the folders that they are in
_own: dict[Path, tuple[Path, int]] = {}


def scratch(folder: Path) -> Path:
    """The folder of this process in that one; it is removed when the process ends, since its Java lives as long.

    The first time, what others have left there is removed.
    """
    if folder in _own:
        return _own[folder][0]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(folder)
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    # by its name it is seen only once it is locked, so nobody takes it for one that was left
    fresh = folder / f".{name}"
    lock = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    fresh.rename(folder / f"{name}{LOCK}")
    own = folder / name
    own.mkdir(mode=0o700)
    _own[folder] = (own, lock)
    atexit.register(_give_back, folder, os.getpid())
    return own


def _give_back(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a fork has the same things to do at its end
        own, lock = _own.pop(folder)
        _remove(own)
        os.close(lock)


def _sweep(folder: Path) -> None:
    for path in folder.glob(f"*{LOCK}"):
        try:
            lock = os.open(path, os.O_RDWR)
        except FileNotFoundError:  # somebody else sweeps
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            _remove(folder / path.name.removesuffix(LOCK))
        finally:
            os.close(lock)


def _remove(own: Path) -> None:
    # a Java that has not noticed yet that it is alone may still write there: what is left then goes the next time
    shutil.rmtree(own, ignore_errors=True)
    if not own.exists():
        own.with_name(f"{own.name}{LOCK}").unlink(missing_ok=True)
