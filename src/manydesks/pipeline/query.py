"""SQL over the lake: every table is a view of its own name. A query reads; it cannot write."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.failure import SPARK_FAILURES, sentence
from manydesks.pipeline.tables import present, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    if not text.lower().startswith(BEGINNINGS):
        raise PipelineError(reason="only queries can be run: begin with `select`, `with`, `values`, `from` or `table`.")
    return text


def query(lake: Path, sql: str, spark: SparkSession) -> QueryResult:
    """Runs one query over the newest snapshot of each table.

    Raises `PipelineError` with one sentence if the text is not a query, names an unknown table, or fails.
    """
    text = require_query(sql)
    names = []
    for spec in present(lake):
        read(spark, lake, spec).createOrReplaceTempView(spec.name)
        names.append(spec.name)
    if not names:
        raise PipelineError(reason=f"the lake {lake} has no tables yet; `manydesks pipeline run` makes them.")
    try:
        # in brackets the grammar allows nothing but a query: `with … insert` and its like end here, before they run
        spark.sql(f"select * from (\n{text}\n) limit 0")
        frame = spark.sql(text)
        rows = tuple(tuple(row) for row in frame.collect())
    except ParseException as error:
        raise PipelineError(reason=f"the SQL is not a query that Spark understands: {sentence(error)}") from error
    except AnalysisException as error:
        raise PipelineError(reason=_unknown_table(error, names) or sentence(error)) from error
    except SPARK_FAILURES as error:
        raise PipelineError(reason=f"the query failed: {sentence(error)}") from error
    return QueryResult(columns=tuple(frame.columns), rows=rows)


def _unknown_table(error: AnalysisException, names: list[str]) -> str | None:
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    name = (error.getMessageParameters() or {}).get("relationName", "that").replace("`", "")
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"the lake has no table '{name}'; " + (
        f"did you mean '{near[0]}'?" if near else f"it has {', '.join(names)}."
    )
