"""What was read out of mailboxes, while it waits to be sorted out: rows of three tables, and how the reading went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.place import Place, writable
from manydesks.pipeline.sources.mailbox import Seen
from manydesks.pipeline.sources.sessions import OWN, SEEN, STAGED

#: rows in memory at a time, but for what is gathered of a group: contents are large
BATCH_ROWS = 1_000
#: a row group, and a file
GROUP_ROWS, GROUP_BYTES = 100_000, 32 << 20
FILE_BYTES = 256 << 20


def write_staged(folder: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """As Spark writes them, by this process."""
    folder.mkdir()
    with pq.ParquetWriter(folder / "part-00000.parquet", to_arrow_schema(STAGED)) as writer:
        for batch in batches:
            writer.write_batch(batch)


def how_it_went(folder: Path) -> dict[str, Seen]:
    """By the path of each file, all of its parts taken together."""
    columns = ["path", "outcome", "reason", "reached", "epoch", "last"]
    parts: dict[str, list[Seen]] = {}
    for batch in _batches(folder, SEEN, columns):
        for row in batch.to_pylist():
            seen = Seen(**{name: row[name] for name in columns if name != "path"})
            parts.setdefault(row["path"], []).append(seen)
    return {path: _together(seen) for path, seen in parts.items()}


def count_rows(folder: Path, spec: TableSpec) -> int:
    return sum(batch.num_rows for batch in _batches(folder, spec.name, ["seq"]))


def write_rows(folder: Path, spec: TableSpec, batch: int, went: Mapping[str, Seen], target: Place) -> None:
    """The rows of one table, as files of it in `target`; memory holds one row group.

    Of a file that was not read to its end, only what lies before the first gap: the next run goes on after the highest
    number that the lake has.
    """
    schema = to_arrow_schema(spec.schema)
    names = [field.name for field in schema if field.name not in OWN]
    ends = {path: seen.reached for path, seen in went.items() if seen.reached is not None}
    paths, limits = pa.array(list(ends), pa.string()), pa.array(list(ends.values()), pa.int64())

    def rows() -> Iterator[pa.RecordBatch]:
        for found in _batches(folder, spec.name, [*names, "path"]):
            limit = limits.take(pc.index_in(found.column("path"), value_set=paths))
            good = found.filter(pc.fill_null(pc.less_equal(found.column("seq"), limit), True))
            own = {
                "erased_at": pa.nulls(good.num_rows, pa.int64()),
                "batch": pa.repeat(pa.scalar(batch), good.num_rows),
            }
            arrays = [own[field.name] if field.name in own else good.column(field.name) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    for number, part in enumerate(_files(rows())):
        name = f"part-{number:05d}.zstd.parquet"
        with writable(target / name) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for group in part:
                writer.write_table(group, row_group_size=max(group.num_rows, 1))


def _together(parts: Sequence[Seen]) -> Seen:
    outcomes = {one.outcome for one in parts}
    return Seen(
        outcome=next(word for word in ("later", "refused", "read") if word in outcomes),
        reason=next((one.reason for one in parts if one.reason is not None), None),
        reached=min((one.reached for one in parts if one.reached is not None), default=None),
        epoch=next((one.epoch for one in parts if one.epoch is not None), None),
        last=max(one.last for one in parts),
    )


def _files(rows: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.Table]]:
    """The rows as row groups, and these as files; each file is to be read before the next is asked for."""
    groups = _groups(rows)
    for first in groups:

        def file(group: pa.Table = first) -> Iterator[pa.Table]:
            size = group.nbytes
            yield group
            while size < FILE_BYTES and (following := next(groups, None)) is not None:
                size += following.nbytes
                yield following

        yield file()


def _groups(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in rows:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= GROUP_ROWS or sum(one.nbytes for one in waiting) >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _batches(folder: Path, table: str, columns: Sequence[str]) -> Iterator[Any]:
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS, columns=[*columns, "table"]):
            found = batch.filter(pc.equal(batch.column("table"), table))
            if found.num_rows:
                yield found
