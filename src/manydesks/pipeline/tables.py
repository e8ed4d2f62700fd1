"""The tables of the lake: how they are read, and the only place that writes them.

A table is a Delta Lake table. What a commit adds and removes, and the mark that the table then reaches (an application
transaction), are one entry of its log (`commit.py`). delta-rs records the mark but does not refuse a repeat: the lake's
lock and the comparison with the mark do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import CommitProperties, RemoveAction, Transaction
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from manydesks.domain.clock import Clock
from manydesks.domain.errors import PipelineError, TableDamaged
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.commit import DAY_FOLDER, Change, commit_files, sweep_attempts, sync_log
from manydesks.pipeline.damage import remedy_of_log
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.opened import Opened, is_table, opened
from manydesks.pipeline.place import Place, delta_options, spark_pattern, uri, writable
from manydesks.pipeline.remote import Remote
from manydesks.pipeline.schemas import EVENTS, TABLES, check_schema, making_of
from manydesks.pipeline.writing import write_few, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: the count that says how a table's rows were made; see `making_of`
MAKING = "making"

#: in the log of `events` how many rebuilds were begun; in that of a table of silver or gold the last that it has seen
REBUILD = "rebuild"

#: so few rows lie in one partition: then Spark moves none of them, and a step is one task instead of a dozen, each of
#: which takes longer to plan and to start than to run
FEW = 50_000
#: tables that are made of no more rows than this are quicker brought here and written than written by Spark
FEW_HERE = 10_000
#: but not those that are made of texts: a few of them may fill the memory, as they are or word by word
LONG = ("transcripts", "terms_daily", "topics_daily")

#: gets the files that were written, before the commit
Check = Callable[[Sequence[Place]], None]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far a table reaches, recorded in the same transaction as its rows."""

    #: the name of the count, one per table
    app: str
    #: the highest key that the table holds
    version: int
    #: further counts that go with it
    also: Mapping[str, int] = field(default_factory=dict)

    @property
    def properties(self) -> CommitProperties:
        return self.with_counts({})

    def with_counts(self, more: Mapping[str, int]) -> CommitProperties:
        counts = {self.app: self.version, **self.also, **more}
        return CommitProperties(app_transactions=[Transaction(app, version) for app, version in counts.items()])


@dataclass(frozen=True, kw_only=True)
class Range:
    """Rows with `least <= column <= most`: files that hold none of them are not even opened."""

    column: str
    least: Any
    most: Any


@dataclass(frozen=True, kw_only=True)
class File:
    """One Parquet file of a snapshot, as the table's log describes it."""

    path: Place
    entry: Mapping[str, Any]

    @property
    def rows(self) -> int:
        return int(self.entry["num_records"])

    def may_hold(self, wanted: Range) -> bool:
        if self.entry.get(f"null_count.{wanted.column}") == self.rows:
            return False
        least, most = self.entry.get(f"min.{wanted.column}"), self.entry.get(f"max.{wanted.column}")
        return least is None or most is None or (least <= wanted.most and most >= wanted.least)

    def lies_in(self, range: Range) -> bool:
        """Whether all of its rows are in it, for sure."""
        least, most = self.entry.get(f"min.{range.column}"), self.entry.get(f"max.{range.column}")
        return least is not None and most is not None and least >= range.least and most <= range.most

    def removal(self, now: int, *, changes_data: bool = True) -> RemoveAction:
        return RemoveAction(
            path=str(self.entry["path"]),
            data_change=changes_data,
            deletion_timestamp=now,
            size=int(self.entry["size_bytes"]),
            partition_values={},
        )


def exists(lake: Place, spec: TableSpec) -> bool:
    """Whether the table was ever made."""
    return is_table(lake / spec.folder)


def covered(lake: Place, spec: TableSpec, app: str) -> int:
    """How far the table reaches by its own log; 0 if nothing was ever committed."""
    if not exists(lake, spec):
        return 0
    return _opened(lake, spec).count(app)


def rebuilds(lake: Place) -> int:
    """How many rebuilds were begun; a table of silver or gold that has not seen the last of them is to be made anew."""
    return covered(lake, EVENTS, REBUILD)


def reached(lake: Place, spec: TableSpec, *, rebuild: int | None = None) -> int:
    """How far a table of silver or gold reaches; 0 if it is to be made anew: it was made otherwise than now, or before
    this rebuild. None: before the last one."""
    if not exists(lake, spec):
        return 0
    table = _opened(lake, spec)
    if rebuild is None:
        rebuild = rebuilds(lake)
    if _outdated(spec, table) or table.count(REBUILD) < rebuild:
        return 0
    return table.count(spec.name)


def outdated(lake: Place, spec: TableSpec) -> bool:
    """Whether the table has rows that were made otherwise than now."""
    return covered(lake, spec, spec.name) > 0 and _outdated(spec, _opened(lake, spec))


def check_known(lake: Place) -> None:
    """Raises `PipelineError` if a table was made by a newer version of ManyDesks, which this one would damage."""
    for spec in present(lake):
        _check_known(lake, spec, _opened(lake, spec))


def version(lake: Place, spec: TableSpec) -> int:
    """The number of the table's newest commit."""
    return _open(lake, spec).version()


def snapshot(lake: Place, spec: TableSpec, *wanted: Range, days: Collection[str] | None = None) -> list[File]:
    """The files of the newest snapshot that may hold such rows; `days`: of a table that is written by days."""
    entries = _opened(lake, spec).files
    found = [File(path=lake / spec.folder / entry["path"], entry=entry) for entry in entries]
    if days is not None:
        found = [file for file in found if file.entry.get(f"min.{DAY}") in days]
    return [file for file in found if all(file.may_hold(one) for one in wanted)]


def files(lake: Place, spec: TableSpec) -> list[Place]:
    """The Parquet files of the table's newest snapshot."""
    return [file.path for file in snapshot(lake, spec)]


def count(lake: Place, spec: TableSpec) -> int:
    """The rows of the newest snapshot, by the table's log alone."""
    return rows_of(snapshot(lake, spec))


def read(
    spark: SparkSession, lake: Place, spec: TableSpec, *wanted: Range, days: Collection[str] | None = None
) -> DataFrame:
    """The newest snapshot, or of it only files that may hold such rows. `PipelineError` if the table was never made."""
    if not exists(lake, spec):
        raise PipelineError(reason=f"the lake has no table '{spec.name}' yet; `manydesks pipeline run` makes it.")
    return read_files(spark, lake, spec, snapshot(lake, spec, *wanted, days=days))


def read_files(spark: SparkSession, lake: Place, spec: TableSpec, found: Iterable[File]) -> DataFrame:
    """These files; columns that were added to the table since they were written are NULL."""
    schema = StructType.fromJson(json.loads(_open(lake, spec).schema().to_json()))
    found = list(found)
    paths = [spark_pattern(file.path) for file in found]
    with in_one_sentence(f"Spark could not read the table '{spec.name}'"):
        if not paths:
            return spark.createDataFrame([], schema)
        # names of folders mean nothing here
        rows = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)
        return gathered(rows, rows_of(found))


def range_of(found: Collection[File], column: str, *, as_column: str) -> Range | None:
    """The values of a column in these files, by the table's log alone, as what `read` takes of another table's column
    that has the same values. None: the log does not say."""
    least, most = [], []
    for file in found:
        if file.entry.get(f"null_count.{column}") == file.rows:
            continue
        if (lowest := file.entry.get(f"min.{column}")) is None or (highest := file.entry.get(f"max.{column}")) is None:
            return None
        least.append(lowest)
        most.append(highest)
    # without any value: a range in which nothing lies
    return Range(column=as_column, least=min(least, default=1), most=max(most, default=0))


def rows_of(found: Iterable[File]) -> int:
    return sum(file.rows for file in found)


def bytes_of(found: Iterable[File]) -> int:
    """As the files lie there, compressed."""
    return sum(int(file.entry["size_bytes"]) for file in found)


def gathered(rows: DataFrame, count: int) -> DataFrame:
    """The same rows, in one partition if there are few; `count`: about how many there are."""
    return rows.coalesce(1) if count <= FEW else rows


def present(lake: Place) -> list[TableSpec]:
    """The tables that this lake has, in the order of `schemas.TABLES`."""
    return [spec for spec in TABLES.values() if exists(lake, spec)]


def ensure(held: HeldLake, spec: TableSpec) -> None:
    """Makes the table, empty, if it is not there; adds the columns that an older version of it lacks; sweeps what
    killed attempts left in it."""
    folder = held.folder / spec.folder
    wanted = deltalake.Schema.from_json(spec.schema.json())  # a StructType writes itself as Delta's log does
    if not exists(held.folder, spec):
        deltalake.DeltaTable.create(uri(folder), wanted, mode="ignore", storage_options=delta_options(folder))
        sync_log(folder)
    else:
        found = _opened(held.folder, spec)
        _check_known(held.folder, spec, found)
        table = found.table
        known = {field.name for field in table.schema().fields}
        # the rows that are there have no value
        added = [deltalake.Field(f.name, f.type, nullable=True) for f in wanted.fields if f.name not in known]
        if added:
            table.alter.add_columns(added)
            sync_log(folder)
    _sweep(held, spec)


def sweep(held: HeldLake) -> None:
    """Removes what killed attempts left in any table; needs no Spark, which does not start on a disk that they fill.

    Raises as `check_known` does, before anything is removed.
    """
    check_known(held.folder)
    for spec in present(held.folder):
        _sweep(held, spec)


def append_files_once(
    held: HeldLake, spec: TableSpec, write: Callable[[Any], None], mark: Mark, clock: Clock, check: Check
) -> int:
    """Adds the files that `write` puts into the folder it is given, and moves the mark, both or neither; returns the
    number of rows.

    If the table reaches the mark already, nothing is written and 0 is returned. `check` gets the written files before
    the commit; what it raises leaves the table as it was.
    """
    if covered(held.folder, spec, mark.app) >= mark.version:
        return 0

    def checked(attempt: Place) -> None:
        write(attempt)
        found: list[Any] = sorted(attempt.glob("*.parquet"))
        check(found)

    return commit(held, spec, checked, clock, Change(properties=_made(spec, mark)))[0]


def replace_days(
    held: HeldLake,
    spec: TableSpec,
    rows: DataFrame,
    days: Collection[str] | None,
    mark: Mark,
    clock: Clock,
    *,
    made_of: int,
) -> int:
    """These days of the table become these rows, and the mark moves, both or neither; returns the number of rows.

    Files of other days are not touched; None: all days. The caller has compared the mark. `made_of`: of about how many
    rows these were made.
    """
    old = snapshot(held.folder, spec, days=days)
    removed = [file.removal(clock.now()) for file in old]
    change = Change(removed=removed, properties=_made(spec, mark))
    # in SQL, since each word about a column is a question to Java
    ready = rows.selectExpr(*(f"`{column.name}`" for column in spec.columns))
    check_schema(ready.schema, spec)

    def write(attempt: Place) -> None:
        named = ready.withColumn(DAY_FOLDER, ready[DAY])
        # one file for each day
        together = named.coalesce(1) if made_of <= FEW else named.repartition(DAY_FOLDER)
        few = made_of <= FEW_HERE and spec.name not in LONG
        (write_few if few else write_rows)(together, spec, attempt, by=DAY_FOLDER)

    return commit(held, spec, write, clock, change)[0]


def replace_all(held: HeldLake, spec: TableSpec, rows: DataFrame, mark: Mark, clock: Clock) -> int:
    """The whole table becomes these rows, and the mark moves, both or neither; for a table that is small.

    The caller has compared the mark.
    """
    removed = [file.removal(clock.now()) for file in snapshot(held.folder, spec)]
    ready = rows.select(*(column.name for column in spec.columns))
    check_schema(ready.schema, spec)

    def write(attempt: Place) -> None:
        write_few(ready.coalesce(1), spec, attempt)

    change = Change(removed=removed, properties=_made(spec, mark))
    return commit(held, spec, write, clock, change)[0]


def replace_all_files(held: HeldLake, spec: TableSpec, write: Callable[[Any], None], mark: Mark, clock: Clock) -> int:
    """The same with files that `write` puts into the folder it is given."""
    removed = [file.removal(clock.now()) for file in snapshot(held.folder, spec)]
    change = Change(removed=removed, properties=_made(spec, mark))
    return commit(held, spec, write, clock, change)[0]


def rewrite(
    held: HeldLake,
    spec: TableSpec,
    old: Sequence[File],
    rows: DataFrame,
    clock: Clock,
    *,
    changes_data: bool,
    mark: Mark | None = None,
) -> int:
    """These files become these rows; returns the number of files. The mark, if there is one, moves with it."""
    removed = [file.removal(clock.now(), changes_data=changes_data) for file in old]
    check_schema(rows.schema, spec)

    def write(attempt: Place) -> None:
        write_rows(rows, spec, attempt)

    properties = mark.properties if mark is not None else None
    change = Change(removed=removed, changes_data=changes_data, properties=properties)
    return commit(held, spec, write, clock, change)[1]


def advance(held: HeldLake, spec: TableSpec, mark: Mark, clock: Clock) -> None:
    """Nothing new for this table: only the mark moves."""
    commit(held, spec, lambda attempt: None, clock, Change(properties=_made(spec, mark)))


def commit(
    held: HeldLake, spec: TableSpec, write: Callable[[Any], None], clock: Clock, change: Change
) -> tuple[int, int]:
    """As `commit_files` does. In a lake that other machines may write too, only if nobody did since this run first saw
    the table."""
    folder = held.folder / spec.folder
    change = replace(change, properties=_restated(held.folder, spec, change.properties))
    if not isinstance(folder, Remote):
        return commit_files(folder, spec, write, clock, change)
    known = _known(held, spec)
    done = commit_files(folder, spec, write, clock, replace(change, base=known))
    held.versions[spec.name] = known + 1
    return done


def _restated(lake: Place, spec: TableSpec, properties: CommitProperties | None) -> CommitProperties | None:
    """Each commit says how far the table reaches, also one that only merges files: older ones may be gone, and the
    office looks there before it lets go of what the lake has."""
    told = [] if properties is None else list(properties.app_transactions or [])
    if any(one.app_id == spec.name for one in told) or not (reach := covered(lake, spec, spec.name)):
        return properties
    return CommitProperties(app_transactions=[*told, Transaction(spec.name, reach)])


def append_row(held: HeldLake, spec: TableSpec, row: Mapping[str, Any], clock: Clock) -> None:
    """Adds one row without Spark and without a mark: for a table that counts the runs, not the office."""
    ensure(held, spec)
    rows = pa.Table.from_pylist([dict(row)], schema=to_arrow_schema(spec.schema))

    def write(attempt: Place) -> None:
        # not `write_deltalake`, which panics on a path with brackets in it
        with writable(attempt / "row.parquet") as file:
            pq.write_table(rows, file)

    commit(held, spec, write, clock, Change())


def _open(lake: Place, spec: TableSpec) -> deltalake.DeltaTable:
    return _opened(lake, spec).table


def _opened(lake: Place, spec: TableSpec) -> Opened:
    """Raises `TableDamaged` if the log is not one; what the disk or an object store refuses is an `OSError`."""
    folder = lake / spec.folder
    try:
        return opened(folder)
    except TableNotFoundError:
        raise
    except DeltaError as error:
        # after the first line there may be a trace of the library's own
        reason = " ".join(str(error).partition("\n")[0].split()).rstrip(".")
        raise TableDamaged(table=spec.name, reason=reason[:200], remedy=remedy_of_log(folder, spec.layer)) from error


def _outdated(spec: TableSpec, table: Opened) -> bool:
    return table.count(MAKING) < making_of(spec)


def _made(spec: TableSpec, mark: Mark) -> CommitProperties:
    return mark.with_counts({MAKING: making_of(spec)})


def _check_known(lake: Place, spec: TableSpec, table: Opened) -> None:
    found = StructType.fromJson(json.loads(table.table.schema().to_json()))
    known = {column.name: column.type for column in spec.columns}
    strange = [field.name for field in found.fields if known.get(field.name) != field.dataType]
    if strange:
        how = f"the column '{strange[0]}' is not one that this version knows"
    elif table.count(MAKING) > making_of(spec):
        how = "its rows are made in a way that this version does not know"
    else:
        return
    raise PipelineError(
        reason=f"the table '{spec.name}' of the lake {lake} was made by a newer ManyDesks, {how}; nothing was changed."
    )


def _known(held: HeldLake, spec: TableSpec) -> int:
    if spec.name not in held.versions:
        held.versions[spec.name] = version(held.folder, spec)
    return held.versions[spec.name]


def _sweep(held: HeldLake, spec: TableSpec) -> None:
    folder = held.folder / spec.folder
    if isinstance(folder, Remote):
        # what nobody refers to may be another office's, under way: it goes with a vacuum, by its age
        _known(held, spec)
    else:
        sweep_attempts(folder, [file.path for file in snapshot(held.folder, spec) if isinstance(file.path, Path)])
