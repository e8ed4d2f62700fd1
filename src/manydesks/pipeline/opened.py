"""Tables as they were opened last: a run asks for each of them a dozen times, and the whole log is read each time.

What is kept of a folder is good as long as its log is the same: delta-rs goes back to the log's files now and then, so
none of them may have gone either. Elsewhere than on this machine that costs a request, where opening costs one for each
entry of the log and more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import deltalake
import pyarrow as pa

from manydesks.pipeline.place import Place, delta_options, uri
from manydesks.pipeline.remote import Remote

#: two that differ are two states of a log
Shape = tuple[Any, ...]

#: more tables than a lake has
MOST = 64


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A table's newest snapshot, as of some moment. Nobody changes it, nor what it hands out."""

    table: deltalake.DeltaTable
    folder: Place
    #: what its log was
    shape: Shape | None
    _counts: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        """What the log says of each file."""
        entries: list[dict[str, Any]] = pa.table(self.table.get_add_actions(flatten=True)).to_pylist()
        return entries

    def count(self, app: str) -> int:
        """What the log has under this name; 0: nothing yet. delta-rs would read the log anew each time."""
        if app not in self._counts:
            self._counts[app] = self.table.transaction_version(app) or 0
        return self._counts[app]

    def is_current(self) -> bool:
        return self.shape is not None and _shape(self.folder) == self.shape


_known: dict[Place, Opened] = {}


def is_table(folder: Place) -> bool:
    return _current(folder) is not None or deltalake.DeltaTable.is_deltatable(uri(folder), delta_options(folder))


def opened(folder: Place) -> Opened:
    """Raises as `DeltaTable` does if there is no table."""
    if (known := _current(folder)) is not None:
        return known
    before = _shape(folder)
    found = Opened(
        table=deltalake.DeltaTable(uri(folder), storage_options=delta_options(folder)), folder=folder, shape=before
    )
    if found.is_current():
        # nobody wrote while it was opened
        _known[folder] = found
    while len(_known) > MOST:
        # two threads may do this at once
        _known.pop(next(iter(_known)), None)
    return found


def _current(folder: Place) -> Opened | None:
    known = _known.get(folder)
    return known if known is not None and known.is_current() else None


def _shape(folder: Place) -> Shape | None:
    """What changes with every entry that comes or goes; a moment alone says too little, for two may be of the same.
    None: there is no log."""
    log = folder / "_delta_log"
    if isinstance(log, Remote):
        return tuple(sorted((entry.name, entry.bytes, entry.changed) for entry in log.iterdir())) or None
    try:
        found = log.stat()
        return found.st_ino, found.st_mtime_ns, len(os.listdir(log))  # noqa: PTH208 - names only: it is asked often
    except OSError:
        return None
