"""A full disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

BALLAST = "ballast"


def fill(folder: Path, *, leave: int = 0) -> Path:
    """Takes all the room there is on the folder's disk, but for `leave` bytes, with a file: whoever removes it makes
    room again. For a small disk of its own, never for one that others need."""
    ballast = folder / BALLAST
    with ballast.open("ab", buffering=0) as file:
        for block in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * block):
                    pass
        file.truncate(max(0, file.tell() - leave))
    return ballast
