"""A disk whose power can be cut: SQLite writes to it as to any other, and one can see what would be left."""

from __future__ import annotations

import os
import random
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import apsw

#: what a disk writes at once; a larger write may be torn between two of these
SECTOR = 512

#: called before a write, truncate, sync or delete, with that word and the file's path; if it raises, the act fails
Watch = Callable[[str, str], None]

#: an offset and the bytes there, or a new size of the file
_Change = tuple[int, bytes] | int


class Disk(apsw.VFS):
    """A SQLite file system on top of the default one, for as long as it is entered (`with Disk(…) as disk`).

    What was written since a file's last sync is at risk. `cut` writes the files as they could be found after the power
    went at this moment: of what is at risk each write is there, or not, or torn, in any order; sectors that were being
    written may hold anything. What was synced is there. Whoever uses the disk goes on, so one run can be cut often.

    A sync costs nothing: the machine's own disk is never asked to. Connections that were opened on it must be closed
    before the files are opened without it. Not modelled: a disk that loses what it said it had, or that damages bytes
    next to those it writes.
    """

    #: SQLite keeps pointing at a file system whose connections somebody forgot to close
    _all: ClassVar[list[Disk]] = []

    def __init__(self, seed: int = 0, *, watch: Watch = lambda act, path: None) -> None:
        self.base = apsw.vfs_names()[0]
        self.watch = watch
        self.lock = threading.RLock()
        self._rng = random.Random(seed)
        self._files: dict[str, _Kept] = {}
        super().__init__(f"disk-{secrets.token_hex(4)}", base=self.base, makedefault=True)
        self._all.append(self)

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.unregister()

    @property
    def at_risk(self) -> int:
        """How many writes and truncations are not synced."""
        with self.lock:
            return sum(len(kept.changes) for kept in self._files.values())

    def cut(self, into: Path) -> None:
        """Write what is left after a power cut into a folder, under the files' own names."""
        with self.lock:
            # from "nothing that was not synced" over "half of it" to "all of it"
            share = self._rng.choice((0.0, 0.2, 0.5, 0.8, 0.95, 1.0))
            into.mkdir(parents=True, exist_ok=True)
            for path, kept in self._files.items():
                left = kept.left(self._rng, share)
                if left is not None:
                    (into / Path(path).name).write_bytes(left)

    def kept(self, path: str) -> _Kept:
        with self.lock:
            return self._files[path]

    def sync_folder(self) -> None:
        """Which files there are is now as sure as what is in them."""
        with self.lock:
            for kept in self._files.values():
                kept.forget_deleted()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        if name is None:
            return apsw.VFSFile(self.base, name, flags)
        path = os.fspath(name.filename() if isinstance(name, apsw.URIFilename) else name)
        with self.lock:
            there = Path(path).exists()
            if path not in self._files:
                self._files[path] = _Kept(Path(path).read_bytes() if there else None)
            elif not there:
                self._files[path].begin_anew()
            return _File(self, path, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        self.watch("delete", name)
        with self.lock:
            super().xDelete(name, syncdir)
            if name in self._files:
                self._files[name].delete(for_good=syncdir)


class _Kept:
    """What the disk has of one file, and what it does not have for sure."""

    def __init__(self, synced: bytes | None) -> None:
        #: None: not even its name
        self.synced = None if synced is None else bytearray(synced)
        self.changes: list[_Change] = []
        #: a deleted one of the same name, whose deletion nobody has synced
        self._before: bytes | None = None
        self._deleted = False

    def begin_anew(self) -> None:
        self.synced, self.changes, self._deleted = None, [], False

    def delete(self, *, for_good: bool) -> None:
        if not for_good and self.synced is not None:
            self._before = bytes(self.synced)
        self.synced, self.changes, self._deleted = None, [], True
        if for_good:
            self._before = None

    def sync(self) -> None:
        self.synced = self.synced if self.synced is not None else bytearray()
        for change in self.changes:
            _apply(self.synced, change)
        self.changes = []

    def forget_deleted(self) -> None:
        """The folder was synced."""
        self._before = None

    def left(self, rng: random.Random, share: float) -> bytes | None:
        """What a power cut leaves; None: no such file."""
        if self._before is not None and rng.random() >= share:
            return self._before
        if self._deleted or (self.synced is None and rng.random() >= share):
            return None
        left = bytearray(self.synced or b"")
        for change in self.changes:
            if rng.random() < share:
                _apply(left, change)
            elif isinstance(change, tuple) and rng.random() < 0.5:
                for part in _torn(change, rng):
                    _apply(left, part)
        return bytes(left)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, path: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._disk = disk
        self._path = path
        self._kept = disk.kept(path)
        # as SQLite's own: the folder of a new journal is synced with the journal, once
        created = flags[0] & apsw.SQLITE_OPEN_CREATE
        self._syncs_folder = bool(created and flags[0] & (apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL))
        super().__init__(disk.base, name, flags)

    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # a reader tries to lock for writing when it closes, and SQLite does not mind that it cannot; but of what is
            # raised here it is told about "busy" alone, and Python about all the rest
            raise apsw.BusyError("read-only") from error

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.watch("write", self._path)
        with self._disk.lock:
            super().xWrite(data, offset)
            self._kept.changes.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.watch("truncate", self._path)
        with self._disk.lock:
            super().xTruncate(newsize)
            self._kept.changes.append(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.watch("sync", self._path)
        with self._disk.lock:
            self._kept.sync()
            if self._syncs_folder:
                self._syncs_folder = False
                self._disk.sync_folder()


def _apply(image: bytearray, change: _Change) -> None:
    if isinstance(change, int):
        image.extend(bytes(max(0, change - len(image))))
        del image[change:]
        return
    offset, data = change
    image.extend(bytes(max(0, offset - len(image))))
    image[offset : offset + len(data)] = data


def _torn(change: tuple[int, bytes], rng: random.Random) -> list[tuple[int, bytes]]:
    """Some sectors of a write; one that was under way may hold anything."""
    offset, data = change
    parts = []
    at = 0
    while at < len(data):
        size = min(SECTOR - (offset + at) % SECTOR, len(data) - at)
        fate = rng.random()
        if fate < 0.5:
            parts.append((offset + at, data[at : at + size]))
        elif fate < 0.6:
            parts.append((offset + at, rng.randbytes(size)))
        at += size
    return parts
