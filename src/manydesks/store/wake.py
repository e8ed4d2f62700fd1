"""Wake-ups across processes: a datagram after a commit, and a slow look at the file as the net.

A listener is a socket in the office's socket folder. The writer sends one byte to each after a commit; a datagram that
is lost costs its listener at most one poll interval, never an event.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from pathlib import Path

import apsw

PREFIX = "ear-"
POLL_SECONDS = 0.5


class Bell:
    """Rings every listener. Never blocks, never fails: the poll is the promise, the bell only makes it quick."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listeners: list[str] = []
        self._seen = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def ring(self) -> None:
        with contextlib.suppress(OSError):
            changed = self._folder.stat().st_mtime_ns
            if changed != self._seen:
                self._seen = changed
                self._listeners = [str(path) for path in self._folder.glob(f"{PREFIX}*")]
        for path in self._listeners:
            try:
                self._socket.sendto(b"!", path)
            except ConnectionRefusedError:
                # its process died without removing it
                with contextlib.suppress(OSError):
                    Path(path).unlink()
            except OSError:
                continue  # it has unread ones, is gone, or never was a listener

    def close(self) -> None:
        self._socket.close()


class Listener:
    """Waits for commits of another process."""

    def __init__(self, path: Path | None, db: apsw.Connection) -> None:
        """Listens at `path`; without one, or where none can be made (a read-only home), the poll alone has to do."""
        self._path = path
        self._db = db
        self._socket = _bound(path) if path is not None else None
        self._nudged = False
        self._version = self._data_version()

    def wait(self, seconds: float) -> bool:
        """True as soon as something was committed, False when the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            self._sleep(max(0.0, min(left, POLL_SECONDS)))
            version = self._data_version()
            if version != self._version:
                self._version = version
                return True
            if left <= 0 or self._nudged:
                self._nudged = False
                return False

    def nudge(self) -> None:
        """Let a waiting thread come back at once. From any thread."""
        self._nudged = True
        if self._path is not None and self._socket is not None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                other.sendto(b"!", str(self._path))

    def close(self) -> None:
        if self._socket is not None and self._path is not None:
            self._socket.close()
            self._path.unlink(missing_ok=True)

    def _sleep(self, seconds: float) -> None:
        if self._socket is None:
            time.sleep(seconds)
            return
        if select.select([self._socket], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self._socket.recv(16)

    def _data_version(self) -> int:
        version = self._db.execute("pragma data_version").fetchall()[0][0]
        assert isinstance(version, int)
        return version


def _bound(path: Path) -> socket.socket | None:
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.setblocking(False)
    try:
        ear.bind(str(path))
        path.chmod(0o600)
    except OSError:
        ear.close()
        return None
    return ear
