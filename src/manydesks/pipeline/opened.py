"""Tables as they were opened last: a run asks for each of them a dozen times, and the whole log is read each time.

What is kept of a folder of this machine is good as long as the log's last entry is the same file and none has come
after it: that is two looks at the disk. Elsewhere nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from manydesks.pipeline.place import Place, delta_options, uri

#: more tables than a lake has
MOST = 64


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A table's newest snapshot, as of some moment. Nobody changes it, nor what it hands out."""

    table: deltalake.DeltaTable
    #: the log's last entry and what it is on the disk
    last: Path | None = None
    shape: tuple[int, ...] | None = None

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        """What the log says of each file."""
        entries: list[dict[str, Any]] = pa.table(self.table.get_add_actions(flatten=True)).to_pylist()
        return entries

    def is_current(self) -> bool:
        if self.last is None or self.shape is None or _shape(self.last) != self.shape:
            return False
        return not _entry(self.last.parent, int(self.last.stem) + 1).exists()


_known: dict[Path, Opened] = {}


def is_table(folder: Place) -> bool:
    return _current(folder) is not None or deltalake.DeltaTable.is_deltatable(uri(folder), delta_options(folder))


def opened(folder: Place) -> Opened:
    """Raises as `DeltaTable` does if there is no table."""
    if (known := _current(folder)) is not None:
        return known
    table = deltalake.DeltaTable(uri(folder), storage_options=delta_options(folder))
    if not isinstance(folder, Path):
        return Opened(table=table)
    last = _entry(folder / "_delta_log", table.version())
    found = _known[folder] = Opened(table=table, last=last, shape=_shape(last))
    while len(_known) > MOST:
        # two threads may do this at once
        _known.pop(next(iter(_known)), None)
    return found


def _current(folder: Place) -> Opened | None:
    known = _known.get(folder) if isinstance(folder, Path) else None
    return known if known is not None and known.is_current() else None


def _entry(log: Path, version: int) -> Path:
    return log / f"{version:020d}.json"


def _shape(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
