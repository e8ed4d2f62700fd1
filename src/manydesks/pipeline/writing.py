"""Spark writes a table's files; on a cluster it is made sure that they came to where this machine looks for them. Those
with few rows are written here: Spark takes longer to begin a file than to fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Observation
from pyspark.sql import functions as F

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.place import Place, make_folder, readable, spark_path, writable
from manydesks.pipeline.session import reads_files_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_rows(rows: DataFrame, spec: TableSpec, attempt: Place, *, by: str | None = None) -> None:
    """Writes the rows as Parquet files into the folder; `by`: in a folder for each value of this column.

    An executor that has another folder of the same name fills that one and says that all is well: Spark then finds
    nothing to complain of. So what the executors wrote is counted, and held against what is there.
    """
    seen = None if reads_files_here(rows.sparkSession) else Observation()
    if seen is not None:
        rows = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    with in_one_sentence(f"Spark could not write the table '{spec.name}'"):
        writer = rows.write.mode("append")
        (writer if by is None else writer.partitionBy(by)).parquet(spark_path(attempt))
        wrote = 0 if seen is None else int(seen.get.get("rows") or 0)
    if seen is None:
        return
    there = sum(pq.read_metadata(readable(path)).num_rows for path in attempt.rglob("*.parquet"))
    if there < wrote:
        raise PipelineError(
            reason=f"the executors wrote {wrote:,} rows of the table '{spec.name}', but {attempt} has {there:,}: the"
            " lake must lie where every machine of the cluster can read and write it."
        )


def write_few(rows: DataFrame, spec: TableSpec, attempt: Place, *, by: str | None = None) -> None:
    """The same for rows that fit into memory: they come here, and become one file, or one for each value of `by`."""
    with in_one_sentence(f"Spark could not make the table '{spec.name}'"):
        found = rows.toArrow()
    if by is None:
        _write_file(found, spec, attempt)
        return
    for value in pc.unique(found[by]).to_pylist():
        folder = attempt / f"{by}={value}"
        make_folder(folder)
        _write_file(found.filter(pc.equal(found[by], value)), spec, folder)


def _write_file(rows: pa.Table, spec: TableSpec, folder: Place) -> None:
    with writable(folder / "part-00000.zstd.parquet") as file:
        # of the types that Spark gave them, and would write: also as to what may be NULL
        pq.write_table(rows.select([column.name for column in spec.columns]), file, compression="zstd")
