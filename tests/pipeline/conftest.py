"""One Spark session for all tests, and a store with just the views that the pipeline reads."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from manydesks.testing.history import Made, Shape, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.columns import TableSpec
    from manydesks.pipeline.jobs.step import Step

    Damage = Callable[[Path], None]
    TableRows = Callable[[Path, TableSpec], list[tuple[Any, ...]]]

SCHEMA = """
create table if not exists events (
  seq integer primary key, at integer not null, kind text not null, trace text, parent text, message text, run text,
  session text, agent text, body integer, data text not null
) strict;
create table if not exists bodies (id integer primary key, text text not null, erased_at integer) strict;
create view if not exists export_events as
  select seq, at, kind, trace, parent, message, run, session, agent, body, data from events;
create view if not exists export_bodies as select id, text, erased_at from bodies;
"""

KINDS = ("message_enqueued", "message_received", "chain_step_start", "chain_step_done", "message_completed")


class Ledger:
    """A store that grows, is pruned and is damaged on demand; in WAL mode, as the real one."""

    def __init__(self, path: Path, seed: int = 7) -> None:
        self.path = path
        self._random = random.Random(seed)
        with closing(self._connect()) as db:
            db.execute("pragma journal_mode = wal")
            db.executescript(SCHEMA)

    def add(self, events: int, **fixed: Any) -> None:
        """Adds events and, for every third one, a body; names and texts are odd on purpose."""
        with closing(self._connect()) as db:
            seq = db.execute("select coalesce(max(seq), 0) from events").fetchone()[0]
            body = db.execute("select coalesce(max(id), 0) from bodies").fetchone()[0]
            rows, bodies = [], []
            for at in range(seq + 1, seq + events + 1):
                row = {
                    "seq": at,
                    "at": 1_700_000_000_000 + at * 7,
                    "kind": self._random.choice(KINDS),
                    "trace": f"tr_{at // 5:08d}",
                    "parent": None,
                    "message": self._random.choice((None, f"api_{at:08d}")),
                    "run": None,
                    "session": "s1",
                    "agent": self._random.choice(("coder", "señor-ß", None)),
                    "body": None,
                    "data": json.dumps({"n": at, "text": 'quote " and \n line'}),
                } | fixed
                if at % 3 == 0:
                    body += 1
                    bodies.append((body, f"text {body} – ünïcode \U0001f600 " * 3, None))
                    row["body"] = body
                rows.append(tuple(row.values()))
            db.executemany(f"insert into events values ({', '.join('?' * 11)})", rows)
            db.executemany("insert into bodies values (?, ?, ?)", bodies)
            db.commit()

    def tell(self, events: Iterable[Made]) -> None:
        """Adds these events, each with the text it has."""
        with closing(self._connect()) as db:
            seq = db.execute("select coalesce(max(seq), 0) from events").fetchone()[0]
            body = db.execute("select coalesce(max(id), 0) from bodies").fetchone()[0]
            for event in events:
                seq += 1
                if event.text is not None:
                    body += 1
                    db.execute("insert into bodies values (?, ?, null)", (body, event.text))
                named = body if event.text is not None else None
                db.execute(f"insert into events values ({', '.join('?' * 11)})", event.row(seq, named))
            db.commit()

    def execute(self, sql: str, *values: Any) -> None:
        with closing(self._connect()) as db:
            db.execute(sql, values)
            db.commit()

    def events(self) -> list[tuple[Any, ...]]:
        return self._rows("select * from export_events order by seq")

    def bodies(self) -> list[tuple[Any, ...]]:
        return self._rows("select * from export_bodies order by id")

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as db:
            return db.execute(sql).fetchall()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A store, and the lake that two runs have made of it."""

    ledger: Ledger
    lake: Path
    #: the events of the first run, and the version of their table after it
    first: int
    version: int
    #: what the first run told of itself: while it worked, and at the end of each step
    told: list[tuple[str, int, int]]
    ended: list[Step]

    #: a history of two days, of which one trace goes on to the second
    shape = Shape(events=200, agents=2, days=2)
    #: a text that nothing else is like, and the number of one that was erased before it was archived
    said = "zebra crossing zebra crossing"
    erased = 2

    @classmethod
    def events(cls) -> list[Made]:
        made = list(history(cls.shape))
        first = next(number for number, event in enumerate(made) if event.kind == "message_enqueued")
        made[first] = replace(made[first], text=cls.said)
        done = next(event for event in made if event.kind == "message_completed")
        tool = {"tool": "Bash", "call": "c9", "ok": True}
        return [*made, replace(done, kind="tool_done", at=made[-1].at + 1, run="run_unknown", data=tool)]

    def copy(self, folder: Path) -> Grown:
        """For those who go on with it."""
        shutil.copy(self.ledger.path, folder / "office.db")
        lake = Path(shutil.copytree(self.lake, folder / "lake"))
        return replace(self, ledger=Ledger(folder / "office.db"), lake=lake)


@pytest.fixture(scope="session")
def grown(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Grown:
    """Made once, for those who only look."""
    from manydesks.pipeline import tables
    from manydesks.pipeline.bronze import EVENTS
    from manydesks.pipeline.jobs.whole import run

    folder = tmp_path_factory.mktemp("grown")
    ledger, lake, events = Ledger(folder / "office.db"), folder / "lake", Grown.events()
    ledger.tell(events[:120])
    ledger.execute("update bodies set text = '', erased_at = 5 where id = ?", Grown.erased)
    told: list[tuple[str, int, int]] = []
    ended: list[Step] = []
    first = run(ledger.path, lake, spark, lambda *step: told.append(step), ended=ended.append).to_seq
    version = tables.version(lake, EVENTS)
    ledger.tell(events[120:])
    run(ledger.path, lake, spark, lambda *_: None)
    return Grown(ledger=ledger, lake=lake, first=first, version=version, told=told, ended=ended)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "office.db")


@pytest.fixture(scope="session")
def make_ledger() -> Callable[[Path], Ledger]:
    """For a lake that several tests look at."""
    return Ledger


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(scope="session")
def table_rows() -> TableRows:
    """All rows of a table of the lake, in an order of their own; without Spark, which takes longer to begin than to
    read so little."""
    import pyarrow.parquet as pq

    from manydesks.pipeline import tables

    def rows(lake: Path, spec: TableSpec) -> list[tuple[Any, ...]]:
        names = [column.name for column in spec.columns]
        found = (row for path in tables.files(lake, spec) for row in pq.ParquetFile(path).read().to_pylist())
        return sorted((tuple(row[name] for name in names) for row in found), key=repr)

    return rows


@pytest.fixture(scope="session")
def damage() -> Damage:
    """A file of each table of silver and gold is lost, and nothing in their marks tells of it."""
    from manydesks.domain.clock import SystemClock
    from manydesks.pipeline import tables
    from manydesks.pipeline.commit import Change
    from manydesks.pipeline.gold import GOLD
    from manydesks.pipeline.lock import hold
    from manydesks.pipeline.silver import SILVER

    def damage(lake: Path) -> None:
        clock = SystemClock()
        with hold(lake) as held:
            for spec in (*SILVER, *GOLD):
                lost = [file.removal(clock.now()) for file in tables.snapshot(lake, spec)[:1]]
                tables.commit(held, spec, lambda folder: None, clock, Change(removed=lost))

    return damage


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, kept_java: Mapping[str, str]) -> Iterator[SparkSession]:
    """In the Java that commands had before it: what was compiled for them need not be compiled again."""
    from manydesks.pipeline.session import SparkOptions, end, session

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environ:
        for name, value in kept_java.items():
            environ.setenv(name, value)
        started = session(SparkOptions(master="local[2]", memory="1g", shuffle_partitions=2, folder=folder))
    yield started
    end(started)
