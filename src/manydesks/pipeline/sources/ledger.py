"""The store's `export_*` views, for Spark's workers and for this process.

A read covers the keys `after < key <= upto`, both fixed by whoever starts it, in windows of 100,000 keys. Every window
has a read-only connection of its own that lives for seconds: no long snapshot keeps the store's WAL from being reset,
no writer waits. SQLite files are on this machine, so the executors must be too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.disk import FULL, is_full
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.schemas import BODIES, EVENTS, TableSpec
from manydesks.pipeline.sources.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: keys per window, and so per file of the lake
WINDOW = 100_000

#: so many for each core keep all of them at work to the end; each one more costs what some thousand events do
PARTS_PER_CORE = 4

#: the kind of event that says which text was forgotten
ERASURE = "body_erased"

#: a reader waits this long for a store that is just being recovered by its writer
BUSY_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class View:
    """One exported view of the store."""

    #: its name in office.db
    name: str
    #: the ascending integer that counts its rows
    key: str
    #: the table of the lake that it fills
    table: TableSpec
    #: rows per Arrow batch: bodies are large, and a batch is held in memory
    batch_rows: int


VIEWS = {
    view.name: view
    for view in (
        View(name="export_events", key="seq", table=EVENTS, batch_rows=20_000),
        View(name="export_bodies", key="id", table=BODIES, batch_rows=1_000),
    )
}


@dataclass(frozen=True)
class Window(InputPartition):
    """The keys `first` to `last`, both included."""

    first: int
    last: int


def windows(after: int, upto: int, size: int = WINDOW) -> list[Window]:
    """Cuts `after < key <= upto` into windows of `size` keys; an empty range has none."""
    return [Window(first, min(first + size - 1, upto)) for first in range(after + 1, upto + 1, size)]


def connect(path: Path) -> sqlite3.Connection:
    """A read-only connection. Never `immutable`: the store is being written while we read."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    connection.execute("pragma query_only = 1")
    # bytes that are no UTF-8 must not keep anybody from the rest
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Where the store's views end, at one moment; 0 where a view is empty."""

    #: the highest `seq` of export_events
    events: int
    #: the highest `id` of export_bodies; read in the same snapshot, so it covers every body those events name
    bodies: int


def require_store(path: Path) -> None:
    """Raises `PipelineError` if there is no store, or what is there cannot be opened; asks nothing of its tables."""
    _row(path, "select count(*) from sqlite_schema")


def oldest(path: Path) -> int:
    """The lowest `seq` that the store still has; 1 if it has none. Raises as `heads` does."""
    return int(_row(path, "select coalesce(min(seq), 1) from export_events")[0])


def heads(path: Path) -> Heads:
    """Where the store ends now. Raises `PipelineError` if there is no store, or it is not one of ManyDesks."""
    row = _row(path, "select (select max(seq) from export_events), (select max(id) from export_bodies)")
    return Heads(events=row[0] or 0, bodies=row[1] or 0)


def erasures(path: Path, after: int) -> int:
    """How many texts were forgotten by events above `after` that the store still has. Raises as `heads` does."""
    sql = f"select count(*) from export_events where seq > {after:d} and kind = '{ERASURE}' and body is not null"
    return int(_row(path, sql)[0])


def letters(path: Path, after: int) -> int:
    """Of the texts above `after` that the store still has. Raises as `heads` does."""
    return int(_row(path, f"select coalesce(sum(length(text)), 0) from export_bodies where id > {after:d}")[0])


def _row(path: Path, sql: str) -> tuple[Any, ...]:
    if not path.is_file():
        raise PipelineError(reason=f"there is no store at {path}; an office makes it when it first starts.")
    try:
        with closing(connect(path)) as connection:
            row: tuple[Any, ...] = connection.execute(sql).fetchone()
    except sqlite3.DatabaseError as error:
        # a reader, too, makes the index of the log if it is not there; SQLite then speaks of an I/O error only
        why = FULL if _is_disk_error(error) and is_full(path.parent) else error
        raise PipelineError(reason=f"the store {path} cannot be read ({why}).") from error
    return row


def read_view(path: Path, view: View, window: Window, *, adbc: bool = True) -> Iterator[pa.RecordBatch]:
    """The window's rows in ascending order of the key, as Arrow batches of the table's schema.

    ADBC is three times as fast as the standard library; where it is missing or fails, the standard library goes on
    after the last row that was handed out, so no row comes twice. Bytes that are no UTF-8 become `�`.
    """
    after = window.first - 1
    if adbc:
        try:
            for batch in _read_adbc(path, view, window):
                yield batch
                after = batch.column(0)[-1].as_py()
        except ImportError:
            pass
        except Exception as error:
            if not _is_adbc_error(error):
                raise
        else:
            return
    yield from _read_sqlite3(path, view, Window(after + 1, window.last))


def read(spark: SparkSession, path: Path, view: View, after: int, upto: int, *, window: int = WINDOW) -> DataFrame:
    """The rows `after < key <= upto` of a view; a Spark partition reads one window after the other.

    Not as a data source: of what those bring, Spark makes each row of Java twice, which takes a sixth of all the CPU.
    """
    cut = windows(after, upto, window)
    parts = max(1, min(len(cut), PARTS_PER_CORE * spark.sparkContext.defaultParallelism))
    with in_one_sentence(f"Spark could not read the store {path}"):
        numbers = spark.range(0, len(cut), 1, parts)
        return numbers.mapInArrow(partial(_read_numbered, path, view.name, cut), view.table.schema)


def _read_numbered(
    path: Path, name: str, cut: Sequence[Window], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker of Spark: the windows that the numbers tell."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read_view(path, VIEWS[name], cut[number])
    settle()


def _read_adbc(path: Path, view: View, window: Window) -> Iterator[pa.RecordBatch]:
    import adbc_driver_sqlite.dbapi as adbc
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(view.table.schema)
    # ADBC takes a column's type from the first batch, and NULLs tell it nothing: a typed row goes first and is dropped.
    # Its key lies below every real one, so the order puts it there.
    typed = ", ".join("-1" if isinstance(column.dataType, LongType) else "''" for column in view.table.schema)
    sql = (
        f"select {typed} union all select {_columns(view)} from {view.name}"
        f" where {view.key} between {window.first:d} and {window.last:d} order by 1"
    )
    with adbc.connect(f"{path.absolute().as_uri()}?mode=ro") as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(view.batch_rows)})
        cursor.execute(sql)
        typed_row_is_next = True
        for found in cursor.fetch_record_batch():
            batch = found.slice(1) if typed_row_is_next else found
            typed_row_is_next = False
            if batch.num_rows:
                ready = batch.rename_columns(schema.names).cast(schema)
                # ADBC hands on whatever the store has as text; raises if it is no UTF-8
                ready.validate(full=True)
                yield ready


def _read_sqlite3(path: Path, view: View, window: Window) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(view.table.schema)
    sql = f"select {_columns(view)} from {view.name} where {view.key} between ? and ? order by {view.key}"
    with closing(connect(path)) as connection:
        cursor = connection.execute(sql, (window.first, window.last))
        while rows := cursor.fetchmany(view.batch_rows):
            arrays = [
                pa.array(values, column.type) for values, column in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(view: View) -> str:
    return ", ".join(f'"{column.name}"' for column in view.table.schema)


def _is_disk_error(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF  # the rest tells the kinds of one error apart
    return code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)


def _is_adbc_error(error: Exception) -> bool:
    import adbc_driver_manager
    import pyarrow as pa

    # OSError: how Arrow hands on what its driver says of a page that cannot be read
    return isinstance(error, adbc_driver_manager.Error | pa.ArrowException | OSError)
