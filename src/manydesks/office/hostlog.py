"""What the office says of itself: lines without secrets, and `logs/host.log` kept small.

`manydesks up --detach` appends both streams of the office to that file. The office itself renames it when it has grown,
and goes on in a new one; an office in the foreground writes to its terminal, and nothing is renamed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from manydesks.domain.clock import Clock
from manydesks.settings.secrets import mask

log = logging.getLogger(__name__)

NAME = "host.log"
#: a file that has grown beyond this is renamed, and a new one begun
FILE_BYTES = 8 << 20
#: how many older ones are kept
KEPT = 3

#: libraries that write a line for every call, and the runs of desks inside the host, which the ledger has
QUIET = ("httpx", "httpcore", "uvicorn", "manydesks.runner.runs")


def set_up(level: str, secrets: Callable[[], Mapping[str, str]]) -> None:
    """From now on, log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Blotting(secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def take_level(level: str) -> None:
    """From now on, log what is at least as important."""
    logging.getLogger().setLevel(level.upper())


def stamp(clock: Clock) -> str:
    """How a line of the log begins, also one that is not logged but shown: with the time, as `logging` writes it."""
    seconds, milliseconds = divmod(clock.now(), 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))},{milliseconds:03d}"


class _Blotting(logging.Formatter):
    """Stack traces included: what a library raises may quote what it was given."""

    def __init__(self, secrets: Callable[[], Mapping[str, str]]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record), self._secrets())


class HostLog:
    """The file, if the office's streams lead there. A disk that refuses costs the renaming, never a line."""

    def __init__(
        self, path: Path, *, file_bytes: int = FILE_BYTES, kept: int = KEPT, streams: Sequence[int] = (1, 2)
    ) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._kept = kept
        self._streams = streams

    def has(self, stream: int) -> bool:
        """Whether what is written there goes to this file."""
        try:
            return os.path.samestat(os.fstat(stream), self._path.lstat())
        except OSError:
            return False

    def look(self) -> None:
        """Begin a new file if this one has grown too large."""
        try:
            found = self._path.lstat()
            ours = [stream for stream in self._streams if os.path.samestat(os.fstat(stream), found)]
            if ours and found.st_size > self._file_bytes:
                self._begin_anew(ours)
        except OSError as error:
            log.debug("%s is as it was: %s", self._path, error.strerror)

    def _begin_anew(self, streams: list[int]) -> None:
        for number in range(self._kept, 1, -1):
            older = self._older(number - 1)
            if older.exists():
                older.replace(self._older(number))
        self._path.replace(self._older(1))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fresh = os.open(self._path, flags, 0o600)
        try:
            for stream in streams:
                os.dup2(fresh, stream)
        finally:
            os.close(fresh)

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
