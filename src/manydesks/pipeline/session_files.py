"""The files of all mailboxes: which there are, and how far the lake has each.

How far is in the table `session_files`, which is written after the rows. A run that was killed in between has left rows
that the table does not know of: their `batch` is higher than the table's, and by it they are found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from manydesks.domain.ids import is_name, is_public_id
from manydesks.mailbox.hostile import NOT_LINKED
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import QUARANTINE, SESSION_FILES, SESSION_MESSAGES, SESSIONS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.damage import reading
from manydesks.pipeline.place import Place
from manydesks.pipeline.sources.mailbox import FILES, Cursor, Seen
from manydesks.pipeline.tables import Range

#: the count of readings, in each of the tables
MARK = "sessions"
#: two changes within one tick of the disk's clock look like one: so shortly after a change a file is not believed
YOUNG_MS = 1_000
#: the folder of the home in which sessions lie
FOLDER = "sessions"

_COLUMNS = {"session_messages": "messages", "session_steps": "steps", "session_acks": "acks"}


@dataclass(frozen=True, kw_only=True)
class Found:
    """A file that is there, whatever it is."""

    agent: str
    session: str
    #: `in` or `out`
    side: str
    size: int
    #: two that differ are two states of the file
    state: str
    #: it was changed so shortly before that the state may be that of two changes
    young: bool

    @property
    def path(self) -> str:
        """Below the home."""
        return path_of(self.agent, self.session, self.side)


@dataclass(frozen=True, kw_only=True)
class Known:
    """A file, and what the lake has of it: a row of `session_files`."""

    agent: str
    session: str
    side: str
    size: int = 0
    #: empty: it was never looked into to the end
    state: str = ""
    young: bool = True
    reason: str | None = None
    looked_at: int = 0
    cursor: Cursor = field(default_factory=Cursor)

    def is_news(self, found: Found) -> bool:
        return self.young or self.state != found.state

    def after(self, found: Found, seen: Seen, now: int) -> Known:
        """As it is once it was looked into; rows that were taken are counted by `taken`."""
        cursor = self.cursor
        if seen.epoch is not None and seen.epoch != cursor.epoch:
            cursor = Cursor(epoch=seen.epoch)
        elif seen.epoch is not None:
            # a file that was put back counts from an older number: what it has above it is new
            most = {name: min(getattr(cursor, name), seen.last) for name in _COLUMNS.values()}
            cursor = replace(cursor, **most)
        looked = replace(self, size=found.size, looked_at=now, cursor=cursor)
        if seen.outcome == "later":
            return replace(looked, young=True)
        # that it could not be linked says nothing of the file: the next run tries again
        odd = seen.reason is not None and seen.reason.startswith(NOT_LINKED)
        return replace(looked, state=found.state, young=odd or found.young, reason=seen.reason)

    def level(self) -> Known:
        """As it is once it was read to its end and every table has its rows: nothing lies below the highest number."""
        most = max(getattr(self.cursor, name) for name in _COLUMNS.values())
        return replace(self, cursor=replace(self.cursor, **dict.fromkeys(_COLUMNS.values(), most)))

    @property
    def row(self) -> dict[str, Any]:
        cursor = self.cursor
        return {
            "path": path_of(self.agent, self.session, self.side),
            "agent": self.agent,
            "session": self.session,
            "side": self.side,
            "size": self.size,
            "state": self.state,
            "young": self.young,
            "reason": self.reason,
            "looked_at": self.looked_at,
            "epoch": cursor.epoch,
            "messages": cursor.messages,
            "steps": cursor.steps,
            "acks": cursor.acks,
            "fence": cursor.fence,
            "given": json.dumps(cursor.given),
        }

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Known:
        cursor = Cursor(
            epoch=row["epoch"],
            messages=row["messages"],
            steps=row["steps"],
            acks=row["acks"],
            fence=row["fence"],
            given=tuple(json.loads(row["given"])),
        )
        names = ("agent", "session", "side", "size", "state", "young", "reason", "looked_at")
        return cls(cursor=cursor, **{name: row[name] for name in names})


def path_of(agent: str, session: str, side: str) -> str:
    return "/".join((FOLDER, agent, session, *FILES[side]))


def found(sessions: Path, now: int) -> Iterator[Found]:
    """The files of all mailboxes, by their names alone; nothing is opened. `now`: before this call."""
    for agent in _folders(sessions):
        if not is_name(agent):
            continue
        for session in _folders(sessions / agent):
            if not is_public_id(session):
                continue
            for side, parts in FILES.items():
                path = sessions.joinpath(agent, session, *parts)
                try:
                    at = path.lstat()
                except OSError:
                    continue
                yield Found(
                    agent=agent,
                    session=session,
                    side=side,
                    size=at.st_size,
                    # what a killed writer left makes another state of the file, and so does whoever repairs it
                    state=f"{at.st_size}:{at.st_mtime_ns}:{at.st_ino}:{_size(path.with_name(f'{path.name}-journal'))}",
                    young=now - at.st_mtime_ns // 1_000_000 < YOUNG_MS,
                )


def known(lake: Place) -> dict[str, Known]:
    """Every file that was ever looked into, by its path, with all that the lake has of it."""
    files = (
        {row["path"]: Known.of(row) for row in _read(lake, SESSION_FILES)} if tables.exists(lake, SESSION_FILES) else {}
    )
    batch = tables.covered(lake, SESSION_FILES, MARK)
    for spec in (*SESSIONS, QUARANTINE):
        if tables.covered(lake, spec, MARK) > batch:
            taken(lake, spec, batch, files)
    return files


def taken(lake: Place, spec: TableSpec, batch: int, files: dict[str, Known]) -> None:
    """Counts in what the table has of later readings than this one."""
    if spec is QUARANTINE:
        for row in _read(lake, spec, batch):
            side = next(side for side, parts in FILES.items() if row["path"].endswith("/".join(parts)))
            file = files.get(row["path"], Known(agent=row["agent"], session=row["session"], side=side))
            files[row["path"]] = replace(file, reason=row["reason"], state=row["state"])
        return
    columns = ["agent", "session", "epoch", "seq", "batch"]
    columns += ["side", "fence"] if spec is SESSION_MESSAGES else []
    rows = _table(lake, spec, batch, columns)
    if spec is SESSION_MESSAGES:
        _given(rows.filter(pc.equal(rows["side"], "in")), files)
        rows = rows.filter(pc.equal(rows["side"], "out"))
    newest = rows.group_by(["batch", "agent", "session", "epoch"]).aggregate([("seq", "max")]).sort_by("batch")
    for row in newest.to_pylist():
        path = path_of(row["agent"], row["session"], "out")
        file = files.get(path, Known(agent=row["agent"], session=row["session"], side="out"))
        cursor = file.cursor if file.cursor.epoch == row["epoch"] else Cursor(epoch=row["epoch"])
        name = _COLUMNS[spec.name]
        reached = max(getattr(cursor, name), row["seq_max"])
        files[path] = replace(file, cursor=replace(cursor, **{name: reached}))


def _given(rows: pa.Table, files: dict[str, Known]) -> None:
    most: dict[tuple[str, str], tuple[int, set[int]]] = {}
    columns = (rows[name].to_pylist() for name in ("agent", "session", "fence", "seq"))
    for agent, session, fence, seq in zip(*columns, strict=True):
        known_fence, given = most.get((agent, session), (-1, set()))
        if fence > known_fence:
            most[agent, session] = (fence, {seq})
        elif fence == known_fence:
            given.add(seq)
    for (agent, session), (fence, given) in most.items():
        path = path_of(agent, session, "in")
        file = files.get(path, Known(agent=agent, session=session, side="in"))
        if fence < file.cursor.fence:
            continue
        if fence == file.cursor.fence:
            given |= set(file.cursor.given)
        files[path] = replace(file, cursor=replace(file.cursor, fence=fence, given=tuple(sorted(given))))


def _read(lake: Place, spec: TableSpec, batch: int | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _table(lake, spec, batch, spec.schema.names).to_pylist()
    return rows


def _table(lake: Place, spec: TableSpec, batch: int | None, columns: list[str]) -> pa.Table:
    """These columns of all rows, or of later readings than `batch`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = pa.schema([to_arrow_schema(spec.schema).field(name) for name in columns])
    wanted = () if batch is None else (Range(column="batch", least=batch + 1, most=1 << 62),)
    parts = [schema.empty_table()]
    for file in tables.snapshot(lake, spec, *wanted):
        with reading(file.path) as source:
            parts.append(pq.ParquetFile(source).read(columns=columns).cast(schema))
    rows = pa.concat_tables(parts)
    return rows if batch is None else rows.filter(pc.greater(rows["batch"], batch))


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
