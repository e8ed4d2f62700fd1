"""Gold goes to `gold.db`, a SQLite file that the office reads without Spark.

It is made beside the old one, synced and put in its place by one rename: a reader has the old file or the new one.
A run that changed nothing leaves it alone, if it is whole.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType

from manydesks.domain.clock import Clock
from manydesks.domain.insight import FILE, TABLES, VERSION
from manydesks.insights.damage import damage
from manydesks.pipeline import tables
from manydesks.pipeline.beginning import begins
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.damage import reading
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place, here, sync
from manydesks.pipeline.remote import Remote

TYPES = {LongType: "integer", StringType: "text", DoubleType: "real", BooleanType: "integer"}

#: tables that would make the file large: so many days, the newest ones that have rows; the lake has the others
DAYS: Mapping[str, int] = {"trace_summary": 31, "topics_daily": 92}

#: what comes first within a day, where that is not the order of the columns; a minus: the largest first
ORDER: Mapping[str, str] = {
    "trace_summary": "-started_at",
    "topics_daily": "agent -burst term",
    "dead_letters": "-died_at",
}

#: written to, and then renamed
NEW = f".{FILE}.new"


@dataclass(frozen=True, kw_only=True)
class Published:
    """What was written."""

    path: Path
    #: the file knows every event up to this one
    to_seq: int
    #: rows in all; 0: nothing had changed, and the file is the old one
    rows: int


def publish(held: HeldLake, clock: Clock, told: Callable[[int, int], None] = lambda done, total: None) -> Published:
    """Makes the file anew if gold has changed since it was made. Needs no Spark.

    `told`: after each table, how many rows are in, and how many there are.
    """
    lake = held.folder
    specs = [spec for spec in GOLD if spec.name in TABLES and tables.exists(lake, spec)]
    to_seq = min((tables.covered(lake, spec, spec.name) for spec in specs), default=0)
    made_of: dict[str, Any] = {spec.name: tables.version(lake, spec) for spec in specs}
    if isinstance(lake, Remote):
        made_of["lake"] = str(lake)  # the file lies in the home, where another lake's may be
    versions = json.dumps(made_of, sort_keys=True)
    folder = here(lake)
    path = folder / FILE
    known = _meta(path).items() >= {"version": str(VERSION), "versions": versions}.items()
    if len(specs) < len(TABLES) or (known and damage(path) is None):
        return Published(path=path, to_seq=to_seq, rows=0)
    new = folder / NEW
    new.unlink(missing_ok=True)
    rows, total = 0, sum(tables.rows_of(files) for spec in specs for files in _days(lake, spec).values())
    told(rows, total)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(new)) as db:
        # a file that is not whole is never looked at
        db.execute("pragma journal_mode = off")
        db.execute("pragma synchronous = off")
        for spec in specs:
            rows += _fill(db, spec, _rows(lake, spec))
            told(rows, total)
        db.execute("create table meta (name text primary key, value text not null) strict")
        meta = {
            "version": VERSION,
            "to_seq": to_seq,
            "begins_at": begins(lake),
            "built_at": clock.now(),
            "versions": versions,
            # of the table that was made anew least lately
            tables.REBUILD: min(tables.covered(lake, spec, tables.REBUILD) for spec in specs),
        }
        db.executemany("insert into meta values (?, ?)", [(name, str(value)) for name, value in meta.items()])
        db.commit()
    sync([new])
    new.replace(path)
    sync([folder])
    return Published(path=path, to_seq=to_seq, rows=rows)


def published(lake: Place) -> int | None:
    """The event that the file reaches; None: there is none of this lake that can be read. That all of it can, only
    `published_damage` knows."""
    meta = _meta(here(lake) / FILE)
    try:
        if not meta or (isinstance(lake, Remote) and json.loads(meta["versions"]).get("lake") != str(lake)):
            return None
        return int(meta["to_seq"])
    except (KeyError, ValueError):
        return None


def published_damage(lake: Place) -> str | None:
    """What is wrong with the file, which the next run then makes anew; None: nothing, or there is none.

    Reads all of it.
    """
    path = here(lake) / FILE
    found = damage(path)
    return found and f"{path}: {found}"


def published_rebuild(lake: Place) -> int:
    """The last rebuild that the file has seen."""
    said = _meta(here(lake) / FILE).get(tables.REBUILD, "")
    return int(said) if said.isdecimal() else 0


def _fill(db: sqlite3.Connection, spec: TableSpec, rows: Iterable[tuple[Any, ...]]) -> int:
    lines = [
        f"{column.name} {TYPES[type(column.type)]}{'' if column.nullable else ' not null'}" for column in spec.columns
    ]
    db.execute(f"create table {spec.name} ({', '.join(lines)}) strict")
    marks = ", ".join("?" * len(lines))
    done = db.executemany(f"insert into {spec.name} values ({marks})", rows).rowcount
    names = [column.name for column in spec.columns]
    if spec.by_day:
        db.execute(f"create index {spec.name}_by_day on {spec.name} ({DAY})")
    for name in ("agent", "from_agent", "to_agent", "trace"):
        if name in names:
            db.execute(f"create index {spec.name}_by_{name} on {spec.name} ({name})")
    return max(done, 0)


def _days(lake: Place, spec: TableSpec) -> Mapping[str, list[tables.File]]:
    """The files of each day that is published, newest first."""
    by_day: dict[str, list[tables.File]] = {}
    for file in tables.snapshot(lake, spec):
        by_day.setdefault(str(file.entry.get(f"min.{DAY}", "")), []).append(file)
    return {day: by_day[day] for day in sorted(by_day, reverse=True)[: DAYS.get(spec.name)]}


def _rows(lake: Place, spec: TableSpec) -> Iterator[tuple[Any, ...]]:
    """Newest days first; one day in memory at a time, since a file holds one."""
    names = [column.name for column in spec.columns]
    for files in _days(lake, spec).values():
        found: list[dict[str, Any]] = []
        for file in files:
            with reading(file.path) as source:
                found += pq.ParquetFile(source).read().to_pylist()
        # the last wish first: each sorting keeps the order of what it finds alike
        for wish in reversed((ORDER.get(spec.name, "") or " ".join(names)).split()):
            found.sort(key=lambda row: _sortable(row[wish.removeprefix("-")]), reverse=wish.startswith("-"))
        yield from (tuple(row[name] for name in names) for row in found)


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)


def _meta(path: Path) -> dict[str, str]:
    """Of the file that is there; empty if none can be read: then it is made."""
    if not path.is_file():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as db:
            return dict(db.execute("select name, value from meta").fetchall())
    except sqlite3.DatabaseError:
        return {}
