"""Files that were open when this process was forked off.

SQLite keeps books about its locks inside the process. A forked process inherits the books and not the locks: whatever
it opens of the same file after that is believed to be locked and is not, and acknowledged writes get lost.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import apsw

from manydesks.domain.errors import StoreError

_Inode = tuple[int, int]

#: every connection of this process, with its file
_open: weakref.WeakKeyDictionary[apsw.Connection, _Inode] = weakref.WeakKeyDictionary()
#: of the process that this one was forked off; kept, for closing them here would act on the other's file
_inherited: dict[_Inode, list[apsw.Connection]] = {}


def remember(db: apsw.Connection, path: Path) -> None:
    """A connection that was just opened."""
    _open[db] = _inode(path)


def refuse_inherited(path: Path) -> None:
    """Before a file is opened."""
    if _inherited and path.exists() and _inode(path) in _inherited:
        raise StoreError(
            f"The file {path} was open when this process was forked off, and SQLite cannot be used like that: "
            "open it after the fork only, or start processes with 'spawn'."
        )


def _inode(path: Path) -> _Inode:
    found = path.stat()
    return found.st_dev, found.st_ino


def _forked() -> None:
    for db, inode in _open.items():
        try:
            _ = db.in_transaction
        except apsw.ConnectionClosedError:
            continue
        _inherited.setdefault(inode, []).append(db)


os.register_at_fork(after_in_child=_forked)
