"""The ground the office stands on: its lock and its store, by identity, not by name.

A person may delete `run/` or `office.db` under a running office. The files that it has open live on, but nobody else
can find them: another host could start, and what is stored here would be lost at the end. So the office closes.
"""

from __future__ import annotations

from pathlib import Path

from manydesks.domain.errors import OfficeError


class Ground:
    """Files that must stay the ones they were."""

    def __init__(self, *paths: Path) -> None:
        self._known = {path: _identity(path) for path in paths}

    def check(self) -> None:
        """Raises OfficeError when one of them was deleted or replaced."""
        for path, identity in self._known.items():
            if _identity(path) != identity:
                raise OfficeError(f"{path} was deleted or replaced under the office; the office closes.")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
