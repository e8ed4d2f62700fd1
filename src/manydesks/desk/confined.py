"""Remembers which sessions a stranger wrote in, so that the host never opens their files as its own."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path


class Confined:
    """Whether strangers could write a session's `out/`, and in which sandbox they sat: a word in `host/`, which no desk
    sees."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "host" / "sandbox"

    def mark(self, sandbox: str) -> None:
        """Before the first stranger sits down. Blocks. Raises `OSError`."""
        if self.sandbox() != sandbox:
            # whole or not at all: half a word, left by a full disk, would name a sandbox that there is not
            fresh = self._file.with_name(f".{self._file.name}.new")
            fresh.write_text(sandbox, encoding="utf-8")
            fresh.replace(self._file)

    def sandbox(self) -> str | None:
        """None: only the host itself wrote there."""
        try:
            return self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def take_over(self) -> None:
        """The host itself sits down where a stranger sat: `out/` is put away as a whole, and made anew. Blocks."""
        if self.sandbox() is None:
            return
        away = self._folder / "host" / "out"
        _remove(away)
        with contextlib.suppress(FileNotFoundError):
            (self._folder / "out").rename(away)
        self._file.unlink()


def _remove(path: Path) -> None:
    """A folder that strangers filled; links are removed, not followed."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
