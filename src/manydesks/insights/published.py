"""Reads `gold.db`, the file that the pipeline puts into the lake's folder after each run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import apsw

from manydesks.domain.errors import BadInput, NoInsights
from manydesks.domain.insight import FILE, FLAGS, MOST_ROWS, TABLES, VERSION

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: columns that name an agent, in any of the tables
AGENTS = ("agent", "from_agent", "to_agent")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """Of when the figures are."""

    #: they know every event up to this one
    seq: int
    #: when they were published, ms UTC
    built_at: int
    #: the first event that they know of; above 1: those before were lost with an earlier lake
    begins: int = 1

    def behind(self, head: int) -> int:
        """How many events they do not know, of a ledger that ends at `head`."""
        return max(head - self.seq, 0)

    def ahead(self, head: int) -> int:
        """How many events they know that such a ledger has not: it was put back, or they are another office's."""
        return max(self.seq - head, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Some rows of one table."""

    columns: tuple[str, ...]
    #: in the table's own order, newest days first
    rows: tuple[tuple[Any, ...], ...]
    #: whether there are more rows than were asked for
    more: bool
    stamp: Stamp


class Insights:
    """The published tables. Each call opens the file anew: the next run of the pipeline puts another in its place.

    Everything here blocks, for milliseconds, and raises `NoInsights` if there is no file that this version can read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def stamp(self) -> Stamp:
        with self._open() as db:
            return self._stamp(db)

    def table(
        self, name: str, *, since: str | None = None, until: str | None = None, agent: str | None = None,
        limit: int = 100,
    ) -> Answer:  # fmt: skip
        """Rows of a table: of these days (`YYYY-MM-DD`, UTC, both included), about this agent. Raises `BadInput`.

        Who asks says 'from' and 'to', which Python has other use for; so do the sentences.
        """
        if name not in TABLES:
            raise BadInput(f"There is no table '{name[:60]}'; there are {', '.join(TABLES)}.")
        if not 1 <= limit <= MOST_ROWS:
            raise BadInput(f"The limit is {limit}; it must be 1 to {MOST_ROWS}.")
        for word, day in (("from", since), ("to", until)):
            if day is not None and not is_day(day):
                raise BadInput(f"'{word}' must be a day as in 2026-01-31, not '{day[:40]}'.")
        if since is not None and until is not None and since > until:
            raise BadInput(f"'from' is {since}, which is after 'to', {until}; name the earlier day first.")
        with self._open() as db:
            stamp = self._stamp(db)
            columns = tuple(row[0] for row in db.execute("select name from pragma_table_info(?)", (name,)))
            if not columns:
                raise NoInsights(reason=f"{FILE} is damaged (it has no table '{name}')")
            if (since or until) and "day" not in columns:
                raise BadInput(f"The table '{name}' is about the whole history; it takes neither 'from' nor 'to'.")
            named = [column for column in AGENTS if column in columns]
            if agent is not None and not named:
                raise BadInput(f"The table '{name}' is not by agents; ask it without 'agent'.")
            tests, values = [], []
            for test, value in (("day >= ?", since), ("day <= ?", until)):
                if value is not None:
                    tests.append(test)
                    values.append(value)
            if agent is not None:
                tests.append("(" + " or ".join(f"{column} = ?" for column in named) + ")")
                values += [agent] * len(named)
            where = f" where {' and '.join(tests)}" if tests else ""
            # the publisher has laid the rows in the order in which they are read
            found = db.execute(f"select * from {name}{where} order by rowid limit ?", (*values, limit + 1)).fetchall()
        flags = [column in FLAGS for column in columns]
        rows = tuple(
            tuple(bool(value) if flag and value is not None else value for flag, value in zip(flags, row, strict=True))
            for row in found[:limit]
        )
        return Answer(columns=columns, rows=rows, more=len(found) > limit, stamp=stamp)

    @contextmanager
    def _open(self) -> Iterator[apsw.Connection]:
        if not self._path.exists():
            raise NoInsights(reason="none are published yet")
        if not self._path.is_file():
            raise NoInsights(reason=f"{FILE} is damaged (it is no file)")
        try:
            # nobody ever writes to this file: no lock is taken, no file is made beside it
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            with closing(apsw.Connection(f"{self._path.absolute().as_uri()}?immutable=1", flags=flags)) as db:
                yield db
        except (apsw.Error, UnicodeDecodeError) as error:
            raise NoInsights(reason=f"{FILE} is damaged ({error})") from error

    def _stamp(self, db: apsw.Connection) -> Stamp:
        meta = dict(db.execute("select name, value from meta"))
        if meta.get("version") != str(VERSION):
            raise NoInsights(reason=f"{FILE} was made by another version of the pipeline")
        try:
            begins = int(meta.get("begins_at", 1))
            return Stamp(seq=int(meta["to_seq"]), built_at=int(meta["built_at"]), begins=begins)
        except (KeyError, ValueError) as error:
            raise NoInsights(reason=f"{FILE} is damaged (it does not say how far it reaches)") from error


def is_day(text: str) -> bool:
    if _DAY.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
