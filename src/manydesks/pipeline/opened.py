"""Tables as they were opened last: a run asks for each of them a dozen times, and the whole log is read each time.

What is kept of a folder of this machine is good as long as its log is the same: delta-rs goes back to the log's files
now and then, so none of them may have gone either. Elsewhere nothing is kept.
"""

from __future__ import annotations

import os
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
    folder: Place
    #: what its log was on the disk
    shape: tuple[int, ...] | None

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        """What the log says of each file."""
        entries: list[dict[str, Any]] = pa.table(self.table.get_add_actions(flatten=True)).to_pylist()
        return entries

    def is_current(self) -> bool:
        known, folder = self.shape, self.folder
        return known is not None and isinstance(folder, Path) and _shape(folder / "_delta_log") == known


_known: dict[Path, Opened] = {}


def is_table(folder: Place) -> bool:
    return _current(folder) is not None or deltalake.DeltaTable.is_deltatable(uri(folder), delta_options(folder))


def opened(folder: Place) -> Opened:
    """Raises as `DeltaTable` does if there is no table."""
    if (known := _current(folder)) is not None:
        return known
    before = _shape(folder / "_delta_log") if isinstance(folder, Path) else None
    found = Opened(
        table=deltalake.DeltaTable(uri(folder), storage_options=delta_options(folder)), folder=folder, shape=before
    )
    if isinstance(folder, Path) and found.is_current():
        # nobody wrote while it was opened
        _known[folder] = found
    while len(_known) > MOST:
        # two threads may do this at once
        _known.pop(next(iter(_known)), None)
    return found


def _current(folder: Place) -> Opened | None:
    known = _known.get(folder) if isinstance(folder, Path) else None
    return known if known is not None and known.is_current() else None


def _shape(log: Path) -> tuple[int, ...] | None:
    """What changes with every entry that comes or goes; a moment alone says too little, for two may be of the same."""
    try:
        found = log.stat()
        return found.st_ino, found.st_mtime_ns, len(os.listdir(log))  # noqa: PTH208 - names only: it is asked often
    except OSError:
        return None
