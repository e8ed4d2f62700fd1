"""What the programs at a desk print, kept for people: a file for each session, rotated, secrets blotted out.

A session has one run at a time. The runner says in a line where each begins and where it ends, with its id: what lies
between the two is of that run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from manydesks.settings.secrets import mask

log = logging.getLogger(__name__)

#: a file that grows beyond this is renamed, and a new one begun
FILE_BYTES = 1024 * 1024
#: how many older ones are kept
KEPT = 2
#: one line; what is longer goes on in the next
LINE_BYTES = 8192


#: in the lines by which a runner says where a run begins and ends
RUNS = " manydesks.runner.runs: "


def sweep(folder: Path, before: int) -> int:
    """Remove the logs that nobody has written to since this moment (milliseconds UTC); how many went. Blocks."""
    gone = 0
    try:
        for path in folder.iterdir():
            if path.lstat().st_mtime_ns // 1_000_000 < before:
                path.unlink()
                gone += 1
    except FileNotFoundError:
        pass  # no desk has printed anything yet
    except OSError as error:
        log.warning("%s cannot be swept: %s", folder, error.strerror, extra={"action": "sweep_failed"})
    return gone


class Logbook:
    """One session's. A disk that refuses costs lines, never the desk."""

    def __init__(self, path: Path, secrets: Callable[[], Mapping[str, str]], *, file_bytes: int = FILE_BYTES) -> None:
        self.path = path
        #: the last line that was not empty: mostly the reason of an end
        self.last = ""
        self._secrets = secrets
        self._file_bytes = file_bytes
        self._rest = b""

    def write(self, printed: bytes) -> None:
        """Take what was printed; an unfinished line waits for its end."""
        lines = (self._rest + printed).split(b"\n")
        self._rest = lines.pop()
        while len(self._rest) >= LINE_BYTES:
            lines.append(self._rest[:LINE_BYTES])
            self._rest = self._rest[LINE_BYTES:]
        if lines:
            self._keep(lines)

    def close(self) -> None:
        """The last line, if it had no end."""
        if self._rest:
            self._keep([self._rest])
            self._rest = b""

    def _keep(self, lines: list[bytes]) -> None:
        text = mask("".join(line.decode(errors="replace") + "\n" for line in lines), self._secrets())
        said = (line.strip() for line in reversed(text.splitlines()) if RUNS not in line)
        self.last = next((line for line in said if line), self.last)
        try:
            self._rotate()
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            log.warning("%s cannot be written: %s", self.path, error.strerror, extra={"action": "desk_log_lost"})

    def _rotate(self) -> None:
        if not self.path.exists() or self.path.stat().st_size < self._file_bytes:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            return
        for number in range(KEPT, 1, -1):
            older = self._older(number - 1)
            if older.exists():
                older.replace(self._older(number))
        self.path.replace(self._older(1))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
