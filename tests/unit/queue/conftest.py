"""A jobs file, and all that is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.queue import Queue
from manydesks.store.database import open_reader
from manydesks.testing.clock import ManualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def q(path: Path, clock: ManualClock) -> Iterator[Queue]:
    with Queue(path, "emails", durability="crash", clock=clock, boot="b", max_bytes=1000) as made:
        yield made


@pytest.fixture
def rows(path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    def read(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        db = open_reader(path)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    return read


@pytest.fixture
def dump(rows: Callable[..., list[tuple[Any, ...]]]) -> Callable[[], dict[str, list[tuple[Any, ...]]]]:
    """Everything in the file."""

    def read() -> dict[str, list[tuple[Any, ...]]]:
        tables = [name for (name,) in rows("select name from sqlite_schema where type = 'table'")]
        return {table: rows(f"select * from {table}") for table in tables}

    return read
