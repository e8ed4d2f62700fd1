"""What was said in a session: `history.jsonl` in the provider's folder, one line for each turn, only ever added to.

The continuation is a position in the file. What lies behind it belongs to a turn that the host did not accept: it is
cut off, so a turn that is tried again does not see its own failed attempt.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from manydesks.runner.providers.http_api.coding import Damaged, decode, encode
from manydesks.runner.providers.http_api.talk import Exchange

log = logging.getLogger(__name__)

FILE = "history.jsonl"
_TOKEN = re.compile(r"history:([0-9]{1,15})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What is known of earlier turns."""

    exchanges: tuple[Exchange, ...] = ()
    #: something lies before them, or got lost between them
    cut: bool = False


class History:
    """One session's file. Its verbs block. They raise `OSError` if the file cannot be used.

    The folder may have been a hostile desk's before: only a plain file with one name is opened, no link is followed.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self, continuation: str | None, most: int) -> Past:
        """The turns up to the continuation, the last `most` bytes of them; what is behind it is cut off.

        A continuation that is not ours, or leads behind the end of the file, is a beginning without a past.
        """
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self._path.parent}")
        position = _position(continuation)
        handle = self._open(os.O_RDWR | os.O_CREAT)
        try:
            if not _ends_a_line(handle, position):
                log.warning("The history ends before its position %d: the talk begins anew", position)
                os.ftruncate(handle, 0)
                return Past(cut=True)
            os.ftruncate(handle, position)
            begin = max(position - most, 0)
            data = _bytes(handle, begin, position - begin)
        finally:
            os.close(handle)
        lines = data.split(b"\n")[:-1]
        # a part of a line at the front is no line
        return _past(lines[1:] if begin else lines, cut=begin > 0)

    def append(self, exchange: Exchange) -> str:
        """Add a turn; it is on the disk on return. Returns the continuation that has it."""
        line = encode(exchange)
        handle = self._open(os.O_RDWR | os.O_CREAT)
        try:
            end = os.fstat(handle).st_size
            done = 0
            while done < len(line):
                done += os.pwrite(handle, line[done:], end + done)
            os.fsync(handle)
        finally:
            os.close(handle)
        if end == 0:
            self._sync_name()
        return f"history:{end + len(line)}"

    def _sync_name(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _open(self, flags: int) -> int:
        # not blocking: the name may belong to a FIFO
        handle = os.open(self._path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(handle)
            raise OSError(f"{self._path} is not a plain file of its own")
        return handle


def _position(continuation: str | None) -> int:
    match = _TOKEN.fullmatch(continuation or "")
    return int(match[1]) if match else 0


def _ends_a_line(handle: int, position: int) -> bool:
    """Whether a turn ends there; bytes behind the end of the file are none."""
    return position == 0 or os.pread(handle, 1, position - 1) == b"\n"


def _bytes(handle: int, begin: int, length: int) -> bytes:
    pieces: list[bytes] = []
    while length and (piece := os.pread(handle, length, begin)):
        pieces.append(piece)
        begin += len(piece)
        length -= len(piece)
    return b"".join(pieces)


def _past(lines: list[bytes], *, cut: bool) -> Past:
    exchanges: list[Exchange] = []
    for line in lines:
        try:
            exchanges.append(decode(line))
        except Damaged as damaged:
            log.warning("A line of the history cannot be read and is left out: %s", damaged)
            cut = True
    return Past(exchanges=tuple(exchanges), cut=cut)
