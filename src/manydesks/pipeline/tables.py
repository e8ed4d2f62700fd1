"""The tables of the lake: the only place that writes them.

A table is a Delta Lake table. Spark writes Parquet files into a fresh attempt folder (`data/<attempt>/`) below it; then
one transaction of delta-rs adds all of them, with the mark that they reach (an application transaction). Until then no
reader sees them, so an attempt that was killed leaves only files that nobody refers to; the next one sweeps them.

delta-rs records the mark but does not refuse a repeat: the lake's lock and the comparison in `append_once` do.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, CommitProperties, Transaction
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructType

from manydesks.domain.clock import Clock
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import PATTERN
from manydesks.pipeline.schemas import TABLES, TableSpec, check_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: an attempt folder that holds this file was committed; a later compaction may leave nothing of it in the snapshot,
#: but its files still serve time travel and must not be swept
COMMITTED = "_committed"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far a table reaches, recorded in the same transaction as its rows."""

    #: the name of the count, one per table
    app: str
    #: the highest key that the table holds
    version: int


def exists(lake: Path, spec: TableSpec) -> bool:
    """Whether the table was ever made."""
    return deltalake.DeltaTable.is_deltatable(_uri(lake / spec.folder))


def covered(lake: Path, spec: TableSpec, app: str) -> int:
    """How far the table reaches by its own log; 0 if nothing was ever committed."""
    if not exists(lake, spec):
        return 0
    return _open(lake, spec).transaction_version(app) or 0


def files(lake: Path, spec: TableSpec) -> list[Path]:
    """The Parquet files of the table's newest snapshot."""
    actions = pa.table(_open(lake, spec).get_add_actions(flatten=True))
    return [lake / spec.folder / path for path in actions.column("path").to_pylist()]


def count(lake: Path, spec: TableSpec) -> int:
    """The rows of the newest snapshot, by the table's log alone."""
    actions = pa.table(_open(lake, spec).get_add_actions(flatten=True))
    return sum(actions.column("num_records").to_pylist())


def find(lake: Path, spec: TableSpec, column: str, value: int) -> list[dict[str, Any]]:
    """The rows with this value, without Spark; only for a column of whole numbers, whose range each file's entry has.

    Reads the files itself: a process that used `to_pyarrow_dataset` of delta-rs now and then aborts when it ends.
    """
    actions = pa.table(_open(lake, spec).get_add_actions(flatten=True))
    found: list[dict[str, Any]] = []
    for action in actions.select(["path", f"min.{column}", f"max.{column}"]).to_pylist() if len(actions) else ():
        path, least, most = action.values()
        if least is None or most is None or least <= value <= most:
            rows = pq.ParquetFile(lake / spec.folder / path).read()
            found += rows.filter(pc.equal(rows.column(column), value)).to_pylist()
    return found


def read(spark: SparkSession, lake: Path, spec: TableSpec) -> DataFrame:
    """The newest snapshot. Raises `PipelineError` if the table was never made."""
    if not exists(lake, spec):
        raise PipelineError(reason=f"the lake has no table '{spec.name}' yet; `manydesks pipeline run` makes it.")
    schema = StructType.fromJson(json.loads(_open(lake, spec).schema().to_json()))
    paths = files(lake, spec)
    with in_one_sentence(f"Spark could not read the table '{spec.name}'"):
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*(_literal(path) for path in paths))


def present(lake: Path) -> list[TableSpec]:
    """The tables that this lake has, in the order of `schemas.TABLES`."""
    return [spec for spec in TABLES.values() if exists(lake, spec)]


def ensure(held: HeldLake, spec: TableSpec) -> None:
    """Makes the table, empty, if it is not there; sweeps what killed attempts left in it."""
    table = held.folder / spec.folder
    if not exists(held.folder, spec):
        # a StructType writes itself as the very JSON that Delta's log holds
        deltalake.DeltaTable.create(_uri(table), deltalake.Schema.from_json(spec.schema.json()), mode="ignore")
        _sync(table / "_delta_log")
    _sweep(held.folder, spec)


def sweep(held: HeldLake) -> None:
    """Removes what killed attempts left in any table; needs no Spark, which does not start on a disk that they fill."""
    for spec in present(held.folder):
        _sweep(held.folder, spec)


def append_once(
    held: HeldLake, spec: TableSpec, rows: DataFrame, mark: Mark, clock: Clock, check: Callable[[Sequence[Path]], None]
) -> int:
    """Adds the rows and moves the mark, both or neither; returns the number of rows.

    If the table reaches the mark already, nothing is written and 0 is returned. `check` gets the written files before
    the commit; what it raises leaves the table as it was. After the return the rows survive a power cut.
    """
    if covered(held.folder, spec, mark.app) >= mark.version:
        return 0
    check_schema(rows.schema, spec)

    def write(attempt: Path) -> None:
        with in_one_sentence(f"Spark could not write the table '{spec.name}'"):
            rows.write.mode("append").parquet(str(attempt))
        check(sorted(attempt.glob("*.parquet")))

    return _add(held, spec, write, clock, CommitProperties(app_transactions=[Transaction(mark.app, mark.version)]))


def append_row(held: HeldLake, spec: TableSpec, row: Mapping[str, Any], clock: Clock) -> None:
    """Adds one row without Spark and without a mark: for a table that counts the runs, not the office."""
    ensure(held, spec)
    rows = pa.Table.from_pylist([dict(row)], schema=to_arrow_schema(spec.schema))
    # not `write_deltalake`, which panics on a path with brackets in it
    _add(held, spec, lambda attempt: pq.write_table(rows, attempt / "row.parquet"), clock, CommitProperties())


def _add(
    held: HeldLake, spec: TableSpec, write: Callable[[Path], None], clock: Clock, properties: CommitProperties
) -> int:
    """Lets `write` fill a fresh attempt folder, then commits its files; returns their rows."""
    table = (held.folder / spec.folder).absolute()
    attempt = table / "data" / uuid.uuid4().hex
    try:
        attempt.mkdir(parents=True)
        write(attempt)
        written = sorted(attempt.glob("*.parquet"))
        rows = {path: pq.read_metadata(path).num_rows for path in written}
        added = [_add_action(path, table, spec, clock.now()) for path in written if rows[path]]
        for path in (*written, attempt, attempt.parent, table):
            _sync(path)
    except BaseException:
        # the sweep of the next run would do it too, but a full disk should not stay full until then
        shutil.rmtree(attempt, ignore_errors=True)
        raise
    _commit(table, added, properties)
    (attempt / COMMITTED).touch()
    return sum(rows.values())


def _open(lake: Path, spec: TableSpec) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(_uri(lake / spec.folder))


def _commit(folder: Path, added: Sequence[AddAction], properties: CommitProperties) -> None:
    table = deltalake.DeltaTable(_uri(folder))
    before = table.version()
    table.create_write_transaction(list(added), "append", table.schema(), commit_properties=properties)
    log = folder / "_delta_log"
    for path in log.glob("[0-9]*.json"):
        if int(path.stem) > before:
            _sync(path)
    _sync(log)


def _sweep(lake: Path, spec: TableSpec) -> None:
    attempts = lake / spec.folder / "data"
    if not attempts.is_dir():
        return
    unmarked = [folder for folder in attempts.iterdir() if not (folder / COMMITTED).exists()]
    if not unmarked:
        return
    live = {path.parent.name for path in files(lake, spec)}
    for folder in unmarked:
        if folder.name not in live:
            # the Java of a killed run lives a moment longer and cleans up too; what is left goes with the next sweep
            shutil.rmtree(folder, ignore_errors=True)
    for folder in unmarked:  # only now: on a full disk the mark needs the room that was just freed
        if folder.name in live:
            (folder / COMMITTED).touch()  # it was killed between the commit and the mark


def _add_action(path: Path, table: Path, spec: TableSpec, now: int) -> AddAction:
    footer = pq.read_metadata(path)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    nulls: dict[str, int] = {}
    for index, column in enumerate(spec.schema.fields):
        found = [group.column(index).statistics for group in groups]
        if any(one is None or not one.has_null_count for one in found):
            continue
        nulls[column.name] = sum(one.null_count for one in found)
        ranges = [one for one in found if one.has_min_max]
        if isinstance(column.dataType, LongType) and ranges:
            least[column.name] = min(one.min for one in ranges)
            most[column.name] = max(one.max for one in ranges)
    stats = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return AddAction(
        path=path.relative_to(table).as_posix(),
        size=path.stat().st_size,
        partition_values={},
        modification_time=now,
        data_change=True,
        stats=json.dumps(stats),
    )


def _uri(path: Path) -> str:
    """A URI means one folder only; a plain path with odd characters is for delta-rs to guess at."""
    return path.absolute().as_uri()


def _literal(path: Path) -> str:
    """Spark takes a path to read as a pattern, and never decodes a URI."""
    return PATTERN.sub(r"\\\1", str(path.absolute()))


def _sync(path: Path) -> None:
    """The store forgets what the lake covers: that must be on the disk, not in its cache."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
