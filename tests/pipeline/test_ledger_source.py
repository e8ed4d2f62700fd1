"""Reading the store's views, without and with Spark."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from manydesks.pipeline.failure import SPARK_FAILURES, sentence
from manydesks.pipeline.sources import ledger as source
from manydesks.pipeline.sources.ledger import VIEWS, Heads, Window, heads, read_view, windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVENTS = VIEWS["export_events"]
BODIES = VIEWS["export_bodies"]


def rows(batches: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@given(after=st.integers(0, 500), length=st.integers(0, 500), size=st.integers(1, 200))
def test_windows_cover_the_range_once(after: int, length: int, size: int) -> None:
    cut = windows(after, after + length, size)
    assert [key for one in cut for key in range(one.first, one.last + 1)] == list(range(after + 1, after + length + 1))
    assert all(one.last - one.first < size for one in cut)


@pytest.mark.parametrize("adbc", [True, False])
def test_both_engines_read_the_same_rows(ledger: Any, adbc: bool) -> None:
    ledger.add(300)
    assert rows(read_view(ledger.path, EVENTS, Window(1, 300), adbc=adbc)) == ledger.events()
    assert rows(read_view(ledger.path, BODIES, Window(1, 100), adbc=adbc)) == ledger.bodies()
    assert rows(read_view(ledger.path, EVENTS, Window(101, 150), adbc=adbc)) == ledger.events()[100:150]
    assert rows(read_view(ledger.path, EVENTS, Window(301, 400), adbc=adbc)) == []


@pytest.mark.parametrize("adbc", [True, False])
def test_a_batch_of_nulls_before_text(ledger: Any, adbc: bool) -> None:
    ledger.add(EVENTS.batch_rows + 5, trace=None, agent=None)
    ledger.add(5, trace="tr_1", agent="coder")
    found = list(read_view(ledger.path, EVENTS, Window(1, EVENTS.batch_rows + 10), adbc=adbc))
    assert rows(found) == ledger.events()
    assert len({str(batch.schema) for batch in found}) == 1


@pytest.mark.parametrize("adbc", [True, False])
def test_bytes_that_are_no_utf8_keep_nobody_from_the_rest(ledger: Any, adbc: bool) -> None:
    ledger.add(3, body=None)
    ledger.execute("update events set data = cast(x'7bff7d' as text) where seq = 2")
    found = rows(read_view(ledger.path, EVENTS, Window(1, 3), adbc=adbc))
    assert [(row[0], row[-1]) for row in found if row[0] == 2] == [(2, "{\ufffd}")]
    assert [row[0] for row in found] == [1, 2, 3]


def test_whole_numbers_keep_all_64_bits(ledger: Any) -> None:
    ledger.add(1, at=2**63 - 1)
    ledger.add(1, at=-(2**63))
    assert rows(read_view(ledger.path, EVENTS, Window(1, 2))) == ledger.events()


def test_the_standard_library_goes_on_where_adbc_failed(ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.add(100)

    def fails_half_way(path: Path, view: source.View, window: Window) -> Any:
        yield from source._read_sqlite3(path, view, Window(1, 60))
        raise pa.ArrowInvalid("the type changed")

    monkeypatch.setattr(source, "_read_adbc", fails_half_way)
    assert rows(read_view(ledger.path, EVENTS, Window(1, 100))) == ledger.events()


def tear(path: Path) -> None:
    """The later half of the pages with events is no longer what it was."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)")
        (size,) = db.execute("pragma page_size").fetchone()
    store = path.read_bytes()
    # a leaf of a table begins with 13
    starts = [at for at in range(size, len(store), size) if store[at] == 13 and b"quote" in store[at : at + size]]
    with path.open("r+b") as file:
        for at in starts[len(starts) // 2 :]:
            file.seek(at)
            file.write(b"\xff" * size)


@pytest.mark.parametrize("adbc", [True, False])
def test_a_damaged_store_is_said_to_be_that(ledger: Any, adbc: bool) -> None:
    ledger.add(300)
    tear(ledger.path)
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        rows(read_view(ledger.path, EVENTS, Window(1, 300), adbc=adbc))


def test_the_ends_of_the_views(ledger: Any) -> None:
    assert heads(ledger.path) == Heads(events=0, bodies=0)
    ledger.add(10)
    assert heads(ledger.path) == Heads(events=10, bodies=3)


def test_a_reader_sees_what_a_live_writer_has_not_checkpointed(ledger: Any) -> None:
    writer = sqlite3.connect(ledger.path)
    try:
        writer.execute("pragma wal_autocheckpoint = 0")
        ledger.add(5)
        writer.execute("insert into events (seq, at, kind, data) values (6, 1, 'message_dead', '{}')")
        writer.commit()
        writer.execute("insert into events (seq, at, kind, data) values (7, 1, 'message_dead', '{}')")
        assert heads(ledger.path).events == 6  # and does not wait for the open transaction
        assert len(rows(read_view(ledger.path, EVENTS, Window(1, 7)))) == 6
        writer.rollback()
    finally:
        writer.close()


@pytest.mark.parametrize(("window", "parts"), [(20, 5), (3, 8)])
def test_spark_reads_windows_in_a_few_partitions(ledger: Any, spark: SparkSession, window: int, parts: int) -> None:
    ledger.add(100)
    frame = source.read(spark, ledger.path, EVENTS, 10, 95, window=window)
    assert frame.schema == EVENTS.table.schema
    assert frame.rdd.getNumPartitions() == parts
    assert sorted(map(tuple, frame.collect())) == ledger.events()[10:95]


def test_spark_says_what_its_workers_met(ledger: Any, spark: SparkSession) -> None:
    ledger.add(300)
    tear(ledger.path)
    with pytest.raises(SPARK_FAILURES) as met:
        source.read(spark, ledger.path, EVENTS, 0, 300, window=100).collect()
    assert sentence(met.value) == "database disk image is malformed."


def test_an_empty_range_is_an_empty_frame(ledger: Any, spark: SparkSession) -> None:
    ledger.add(10)
    assert source.read(spark, ledger.path, EVENTS, 10, 10).collect() == []
