"""Opens files that somebody else may swap at any moment.

A path is never opened as a whole. It is walked name by name from a folder that is trusted, each name opened in the one
before it and none through a symbolic link: what was checked is what is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from manydesks.domain.errors import BadInput

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# a pipe without a writer would otherwise hold the reader for ever
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """A regular file below `root`, open for reading. Raises `BadInput` with the end of a sentence: why not."""
    _straight(parts or [""])
    with folder(root, parts[:-1]) as inside:
        try:
            handle = os.open(parts[-1], _FILE, dir_fd=inside)
        except OSError as error:
            raise _refusal(parts[-1], error, inside) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BadInput("it is not a regular file")
        yield handle
    finally:
        os.close(handle)


@contextmanager
def folder(root: Path, parts: Sequence[str] = ()) -> Iterator[int]:
    """A folder below `root`, or itself. Raises `BadInput` as `opened` does."""
    _straight(parts)
    try:
        # the root itself is ours, and may be reached through links of its owner
        handle = os.open(root, FOLDER & ~os.O_NOFOLLOW)
    except OSError as error:
        raise BadInput(f"its folder cannot be opened ({error.strerror})") from None
    try:
        for part in parts:
            try:
                inner = os.open(part, FOLDER, dir_fd=handle)
            except OSError as error:
                raise _refusal(part, error, handle) from None
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _straight(parts: Sequence[str]) -> None:
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise BadInput("its path is not one that leads straight down")


def _refusal(part: str, error: OSError, folder: int) -> BadInput:
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            return BadInput(f"'{part}' is a symbolic link, and those are not followed")
    if isinstance(error, FileNotFoundError):
        return BadInput(f"there is no '{part}'")
    return BadInput(f"'{part}' cannot be opened ({error.strerror})")
