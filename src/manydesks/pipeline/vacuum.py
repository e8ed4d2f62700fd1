"""What no reader needs any more goes from the disk: files that left the newest snapshot long ago, and entries of the
log that only led to snapshots whose files are gone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import deltalake

from manydesks.pipeline.commit import COMMITTED, sync_log
from manydesks.pipeline.place import Place, delta_options, file_size, sync, uri, written_at
from manydesks.pipeline.remote import Remote

#: a reader may hold a snapshot for so long, unless somebody says otherwise
KEEP_HOURS = 168

_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint(?:\.\d+\.\d+)?\.parquet)")


@dataclass(frozen=True, kw_only=True)
class Freed:
    """What went."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Freed) -> Freed:
        return Freed(files=self.files + other.files, bytes=self.bytes + other.bytes)


def vacuum(folder: Place, live: Sequence[Place], before: int) -> Freed:
    """Removes the files of a table that no snapshot newer than `before` (ms UTC) has; `live` are those of the newest.

    The caller holds the lake's lock and has swept what killed attempts left. Killed anywhere, the next one goes on.
    """
    if isinstance(folder, Remote):
        return _vacuum_remote(folder, {str(path) for path in live}, before)
    data = folder / "data"
    if not data.is_dir():
        return Freed()
    needed = {path.absolute() for path in live}
    left = _left(folder)
    freed = Freed()
    for attempt in sorted(data.iterdir()):
        kept = False
        for path in list(attempt.rglob("*.parquet")):
            # one that the log no longer speaks of left before the oldest snapshot that can still be opened
            if path.absolute() in needed or left.get(path.relative_to(folder).as_posix(), before) > before:
                kept = True
                continue
            freed += Freed(files=1, bytes=path.stat().st_size)
            path.unlink()
            with suppress(FileNotFoundError):
                path.with_name(f".{path.name}.crc").unlink()  # Hadoop's own
        if not kept and (attempt / COMMITTED).exists():
            shutil.rmtree(attempt)
    return freed


def _vacuum_remote(folder: Remote, needed: set[str], before: int) -> Freed:
    """There nothing was swept: what the log does not speak of may be under way elsewhere, and goes by its age."""
    left = _left(folder)
    freed = Freed()
    for attempt in sorted((folder / "data").iterdir()):
        found = list(attempt.rglob("*"))
        files = [path for path in found if path.name.endswith(".parquet")]
        gone = [
            path
            for path in files
            if str(path) not in needed and left.get(path.relative_to(folder).as_posix(), written_at(path)) <= before
        ]
        freed += Freed(files=len(gone), bytes=sum(map(file_size, gone)))
        if len(gone) == len(files) and (files or all(written_at(path) <= before for path in found)):
            attempt.remove_tree()
        else:
            for path in gone:
                path.unlink()
    return freed


def checkpoint(folder: Place) -> None:
    """The log up to now in one file, so that opening the table reads no more than that; nothing if there is one."""
    table = deltalake.DeltaTable(uri(folder), storage_options=delta_options(folder))
    log = folder / "_delta_log"
    if any(version == table.version() and kind != "json" for version, kind, _ in _entries(log)):
        return
    table.create_checkpoint()
    sync(path for version, kind, path in _entries(log) if version == table.version() and kind != "json")
    sync_log(folder)


def trim_log(folder: Place, before: int) -> int:
    """Removes entries of the log that no snapshot newer than `before` (ms UTC) needs; how many.

    A snapshot needs the last checkpoint at or before it, and the entries from there on.
    """
    found = list(_entries(folder / "_delta_log"))
    old = [version for version, kind, path in found if kind != "json" and written_at(path) <= before]
    first = max(old, default=0)
    gone = [path for version, _, path in sorted(found) if version < first]
    for path in gone:
        path.unlink()
    return len(gone)


def commits(folder: Place) -> list[int]:
    """When each entry of the log was written, ms UTC, oldest first."""
    return [written_at(path) for _, kind, path in sorted(_entries(folder / "_delta_log")) if kind == "json"]


def _entries(log: Place) -> Iterator[tuple[int, str, Path]]:
    for path in cast(Iterator[Path], log.iterdir()):  # or a remote one: it sorts, reads and goes alike
        if found := _ENTRY.fullmatch(path.name):
            yield int(found[1]), found[2], path


def _left(folder: Place) -> dict[str, int]:
    """Which file left the table, and when, by the entries of its log."""
    left: dict[str, int] = {}
    for _, kind, path in sorted(_entries(folder / "_delta_log")):
        if kind != "json":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            action: dict[str, Any] = json.loads(line)
            if "remove" in action:
                left[unquote(action["remove"]["path"])] = int(action["remove"].get("deletionTimestamp") or 0)
    return left
