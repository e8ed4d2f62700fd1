"""SQL over the lake: every table is a view of its own name. A query reads; it cannot write."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.answer import collectable
from manydesks.pipeline.comments import past_comments
from manydesks.pipeline.failure import SPARK_FAILURES, sentence
from manydesks.pipeline.harmless import require_harmless
from manydesks.pipeline.packing import write_rows
from manydesks.pipeline.place import Place
from manydesks.pipeline.session import reads_files_here
from manydesks.pipeline.tables import present, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: how a query may begin
BEGINNINGS = ("select", "with", "values", "from", "table", "(")


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """All rows of an answer, in memory: ask for few."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def require_query(sql: str) -> str:
    """The text without what ends it. Raises `PipelineError` if it begins as nothing that only reads; needs no Spark."""
    text = sql.strip().rstrip(";").strip()
    if not past_comments(text).lower().startswith(BEGINNINGS):
        raise PipelineError(reason="only queries can be run: begin with `select`, `with`, `values`, `from` or `table`.")
    return text


def query(lake: Place, sql: str, spark: SparkSession) -> QueryResult:
    """Runs one query over the newest snapshot of each table.

    What Python has no values for is text, as `collectable` says. Raises `PipelineError` with one sentence if the text
    is not a query, names an unknown table, or fails.
    """
    frame, names = _collectable(lake, sql, spark)
    with _sentences(names):
        return QueryResult(columns=tuple(frame.columns), rows=tuple(map(tuple, frame.collect())))


def query_rows(lake: Place, sql: str, spark: SparkSession) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
    """The columns, and the rows one after another: a part of them is in memory at a time. Raises as `query` does."""
    frame, names = _collectable(lake, sql, spark)

    def rows() -> Iterator[tuple[Any, ...]]:
        with _sentences(names):
            yield from map(tuple, frame.toLocalIterator(prefetchPartitions=True))

    return tuple(frame.columns), rows()


def query_to_parquet(lake: Place, sql: str, spark: SparkSession, path: Path, scratch: Path) -> int:
    """Writes the answer into one Parquet file, in the order that the query gives it; how many rows.

    Where Spark's executors write to this machine's files they write `scratch`, a folder that must not be there yet;
    elsewhere the rows come through this process. Raises as `query` does; the file may then be half written.
    """
    frame, names = _frame(lake, sql, spark)
    # as Spark compares them when it writes
    _require_apart(repeated(frame.schema, any_case=True), "a Parquet file")
    # the old default is a type that only Spark takes for a moment
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with _sentences(names):
        try:
            if not reads_files_here(spark):
                return write_rows(frame, path)
            frame.write.parquet(str(scratch))
            return _join(sorted(scratch.glob("*.parquet")), path)
        except (pa.ArrowException, ValueError) as error:
            # of values that have a type in Spark only, as the keys of `map()`
            raise PipelineError(reason=f"the answer cannot be written as Parquet: {sentence(error)}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _frame(lake: Place, sql: str, spark: SparkSession) -> tuple[DataFrame, list[str]]:
    text = require_query(sql)
    there = present(lake)
    names = [spec.name for spec in there]
    if not names:
        raise PipelineError(reason=f"the lake {lake} has no tables yet; `manydesks pipeline run` makes them.")
    with _sentences(names):
        require_harmless(spark, text)
    for spec in there:
        # what is wrong with another table is nothing to this query
        if re.search(rf"\b{spec.name}\b", text, re.IGNORECASE):
            read(spark, lake, spec).createOrReplaceTempView(spec.name)
    with _sentences(names):
        # in brackets the grammar allows nothing but a query: `with … insert` and its like end here, before they run
        spark.sql(f"select * from (\n{text}\n) limit 0")
        return spark.sql(text), names


def _collectable(lake: Place, sql: str, spark: SparkSession) -> tuple[DataFrame, list[str]]:
    frame, names = _frame(lake, sql, spark)
    _require_values_apart(frame)
    with _sentences(names):
        return collectable(frame), names


def repeated(type: DataType, *, any_case: bool = False) -> str | None:
    """A name that stands twice in the same struct, however deep; None: there is none."""
    inner: list[DataType] = []
    if isinstance(type, ArrayType):
        inner = [type.elementType]
    elif isinstance(type, MapType):
        inner = [type.keyType, type.valueType]
    elif isinstance(type, StructType):
        inner = [field.dataType for field in type.fields]
        names = [name.lower() if any_case else name for name in type.names]
        twice = [name for at, name in enumerate(type.names) if names[at] in names[:at]]
        if twice:
            return twice[0]
    return next((found for one in inner if (found := repeated(one, any_case=any_case)) is not None), None)


def _require_apart(name: str | None, where: str) -> None:
    """`name`: one that stands twice; Spark knows it before it has run anything."""
    if name is not None:
        raise PipelineError(
            reason=f"the answer has the name '{name}' twice, and in {where} each needs its own: give one of them"
            " another with `AS`."
        )


def _require_values_apart(frame: DataFrame) -> None:
    """Columns may have the same name, since a row is a list; what is nested may not, since one would be lost."""
    for field in frame.schema.fields:
        _require_apart(repeated(field.dataType), f"the column '{field.name}'")


@contextmanager
def _sentences(names: list[str]) -> Iterator[None]:
    try:
        yield
    except ParseException as error:
        raise PipelineError(reason=f"the SQL is not a query that Spark understands: {sentence(error)}") from error
    except AnalysisException as error:
        raise PipelineError(reason=_unknown_table(error, names) or sentence(error)) from error
    except SPARK_FAILURES as error:
        raise PipelineError(reason=f"the query failed: {sentence(error)}") from error


def _join(parts: list[Path], path: Path) -> int:
    rows = 0
    with pq.ParquetWriter(path, pq.read_schema(parts[0]), compression="zstd") as writer:
        for part in parts:
            with pq.ParquetFile(part) as opened:
                for number in range(opened.num_row_groups):
                    group = opened.read_row_group(number)
                    writer.write_table(group, row_group_size=max(group.num_rows, 1))
                    rows += group.num_rows
    return rows


def _unknown_table(error: AnalysisException, names: list[str]) -> str | None:
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    name = (error.getMessageParameters() or {}).get("relationName", "that").replace("`", "")
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"the lake has no table '{name}'; " + (
        f"did you mean '{near[0]}'?" if near else f"it has {', '.join(names)}."
    )
