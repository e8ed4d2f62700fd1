"""Many small files of a table become few: the same rows in the same order, so that opening and reading stay quick.

Which files go together is decided by what the table's log says of them; a file never holds two days, and files of
bronze stay in the order of their keys, so that a reader can go on leaving out those that it does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType

from manydesks.domain.clock import Clock
from manydesks.domain.errors import PipelineError
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.commit import Change
from manydesks.pipeline.damage import reading
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place, writable
from manydesks.pipeline.tables import File, commit

#: a file grows to about this; one of half the size is left alone
TARGET_BYTES = 64 << 20
#: what one commit merges at most, and so what a kill can cost
COMMIT_BYTES = 1 << 30
#: a part of a file that a reader may skip by itself; Spark's own files of bronze have as many rows
GROUP_ROWS = 100_000
GROUP_BYTES = 64 << 20
#: rows in memory at a time, but for what is gathered of a group: texts are large
BATCH_ROWS = 1_000


def bins(spec: TableSpec, found: Iterable[File], target: int = TARGET_BYTES) -> list[list[File]]:
    """The files that belong together: neighbours of one day, as many as make about `target` bytes."""
    wanted: list[list[File]] = []
    for group in _groups(spec, found):
        weight = target  # so that the first one begins a bin
        for file in group:
            if size(file) * 2 >= target:
                weight = target
                continue
            if weight + size(file) > target:
                wanted.append([])
                weight = 0
            wanted[-1].append(file)
            weight += size(file)
    return [bin for bin in wanted if len(bin) > 1]


def newest(spec: TableSpec, found: Iterable[File], most: int, target: int = TARGET_BYTES) -> list[list[File]]:
    """Only what keeps a table that grows by small files from having more than about `most` of them.

    An older file is taken in once the newer ones weigh half as much: each row is written anew a few times, not with
    every round.
    """
    wanted: list[list[File]] = []
    for group in _groups(spec, found):
        small: list[File] = []
        for file in reversed(group):
            if size(file) * 2 >= target:
                break
            small.append(file)
        if len(small) <= most:
            continue
        taken: list[File] = []
        weight = 0
        for file in small:
            if len(taken) > 1 and (size(file) > 2 * weight or weight + size(file) > target):
                break
            taken.append(file)
            weight += size(file)
        wanted.append(taken[::-1])
    return wanted


def merge(held: HeldLake, spec: TableSpec, wanted: Sequence[Sequence[File]], clock: Clock) -> int:
    """Each of these becomes one file; how many files there are less. The old files stay for readers that hold them."""
    fewer = 0
    for part in _commits(wanted):
        removed = [file.removal(clock.now(), changes_data=False) for bin in part for file in bin]

        def write(attempt: Place, part: list[Sequence[File]] = part) -> None:
            for number, bin in enumerate(part):
                _write(attempt / f"merged-{number:05d}.parquet", spec, bin)

        added = commit(held, spec, write, clock, Change(removed=removed, changes_data=False))[1]
        fewer += len(removed) - added
    return fewer


def size(file: File) -> int:
    return int(file.entry["size_bytes"])


def _groups(spec: TableSpec, found: Iterable[File]) -> list[list[File]]:
    """By days where the table is; within one, in the order of the first number that counts its rows."""
    key = next((column.name for column in spec.columns if isinstance(column.type, LongType)), None)
    groups: dict[str, list[File]] = {}
    for file in found:
        groups.setdefault(str(file.entry.get(f"min.{DAY}")) if spec.by_day else "", []).append(file)
    for group in groups.values():
        group.sort(key=lambda file: (file.entry.get(f"min.{key}") or 0, str(file.entry["path"])))
    return [groups[day] for day in sorted(groups)]


def _commits(wanted: Sequence[Sequence[File]]) -> Iterator[list[Sequence[File]]]:
    part: list[Sequence[File]] = []
    weight = 0
    for bin in wanted:
        part.append(bin)
        weight += sum(map(size, bin))
        if weight >= COMMIT_BYTES:
            yield part
            part, weight = [], 0
    if part:
        yield part


def _write(path: Place, spec: TableSpec, old: Sequence[File]) -> None:
    schema = to_arrow_schema(spec.schema)
    written = 0
    with writable(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        group: list[pa.RecordBatch] = []
        rows = weight = 0
        for batch in _batches(old, schema):
            group.append(batch)
            rows += batch.num_rows
            weight += batch.nbytes
            if rows >= GROUP_ROWS or weight >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(group, schema), row_group_size=rows)
                written += rows
                group, rows, weight = [], 0, 0
        if group:
            writer.write_table(pa.Table.from_batches(group, schema), row_group_size=rows)
            written += rows
    if written != sum(file.rows for file in old):
        raise PipelineError(
            reason=f"files of the table '{spec.name}' hold {written:,} rows, and its log says"
            f" {sum(file.rows for file in old):,}; `manydesks pipeline rebuild` makes silver and gold anew."
        )


def _batches(old: Sequence[File], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Columns that were added to the table since a file was written are NULL."""
    for file in old:
        with reading(file.path) as source, pq.ParquetFile(source) as opened:
            for batch in opened.iter_batches(batch_size=BATCH_ROWS):
                have = set(batch.schema.names)
                if unknown := have - set(schema.names):
                    raise PipelineError(
                        reason=f"the lake was written by a newer ManyDesks (it has the column '{min(unknown)}')."
                    )
                arrays = [
                    batch.column(field.name).cast(field.type)
                    if field.name in have
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
