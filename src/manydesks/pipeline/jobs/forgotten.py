"""What a person had the office forget goes from what the lake has of mailboxes, as it went from the mailboxes.

The same rows as there: what was given to a desk, all that was said and done in the runs about it. Rows stay, and are
empty. The office empties a mailbox before the ledger says so, hence nothing of it can come into the lake afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from manydesks.domain.clock import Clock
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import EVENTS, SESSION_ACKS, SESSION_MESSAGES, SESSION_STEPS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.damage import reading
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.tables import File, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the column of each table that holds what was said
TEXTS = ((SESSION_MESSAGES, "content"), (SESSION_STEPS, "data"), (SESSION_ACKS, "reason"))


@dataclass(frozen=True, kw_only=True)
class Named:
    """What was forgotten, by its names."""

    messages: frozenset[str]
    #: those that worked on them
    runs: frozenset[str]
    #: when the last of it was
    at: int


def forget_mail(held: HeldLake, spark: SparkSession, gone: Mapping[int, int], clock: Clock) -> int:
    """Empties what belongs to these texts, which were erased at these moments; how many files of tables it was in.

    Doing it again changes nothing.
    """
    if not gone or not any(tables.exists(held.folder, spec) for spec, _ in TEXTS):
        return 0
    named = _named(held, spark, gone)
    return sum(_empty(held, spark, spec, text, named, clock) for spec, text in TEXTS)


def _named(held: HeldLake, spark: SparkSession, gone: Mapping[int, int]) -> Named:
    """Messages by the texts, among them those that came with the same one; then the runs, by the ledger."""
    about = Range(column="body", least=min(gone), most=max(gone))
    with in_one_sentence("Spark could not find what was forgotten"):
        said = tables.read(spark, held.folder, EVENTS, about).where(F.col("body").isin(list(gone)))
        found = said.where(F.col("message").isNotNull()).groupBy("message").agg(F.min("seq")).collect()
        messages = {row[0]: row[1] for row in found}
        runs: set[str] = set()
        if messages:
            since = Range(column="seq", least=min(messages.values()), most=1 << 62)
            told = tables.read(spark, held.folder, EVENTS, since).where(F.col("message").isin(list(messages)))
            runs = {row[0] for row in told.where(F.col("run").isNotNull()).select("run").distinct().collect()}
    return Named(messages=frozenset(messages), runs=frozenset(runs), at=max(gone.values()))


def _empty(held: HeldLake, spark: SparkSession, spec: TableSpec, text: str, named: Named, clock: Clock) -> int:
    if not tables.exists(held.folder, spec):
        return 0
    old = [file for file in tables.snapshot(held.folder, spec) if _holds(file, spec, text, named)]
    if not old:
        return 0
    rows = tables.read_files(spark, held.folder, spec, old)
    theirs = F.col("run").isin(list(named.runs)) if named.runs else F.lit(False)
    if spec is SESSION_MESSAGES:
        answers = F.col("in_reply_to").isin(list(named.messages))
        given = (F.col("side") == "in") & F.col("id").isin(list(named.messages))
        theirs = given | ((F.col("side") == "out") & (theirs | F.coalesce(answers, F.lit(False))))
    theirs = theirs & F.col("erased_at").isNull() & F.col(text).isNotNull()
    emptied = rows.withColumn("erased_at", F.when(theirs, F.lit(named.at).cast("long")).otherwise(F.col("erased_at")))
    emptied = emptied.withColumn(text, F.when(F.col("erased_at").isNull(), F.col(text)).otherwise(F.lit("")))
    tables.rewrite(held, spec, old, emptied.select(*spec.schema.names), clock, changes_data=True)
    return len(old)


def _holds(file: File, spec: TableSpec, text: str, named: Named) -> bool:
    """Whether something of it is in the file, and not emptied yet. Without Spark: files of these tables are few."""
    columns = ["run", "erased_at", *(["side", "id", "in_reply_to"] if spec is SESSION_MESSAGES else [])]
    if spec is SESSION_ACKS:
        columns.append(text)
    with reading(file.path) as source:
        rows = pq.ParquetFile(source).read(columns=columns)
    runs = pa.array(named.runs, pa.string())
    theirs = pc.is_in(rows["run"], value_set=runs)
    if spec is SESSION_MESSAGES:
        messages = pa.array(named.messages, pa.string())
        answers = pc.or_(theirs, pc.is_in(rows["in_reply_to"], value_set=messages))
        given = pc.and_(pc.equal(rows["side"], "in"), pc.is_in(rows["id"], value_set=messages))
        theirs = pc.or_(given, pc.and_(pc.equal(rows["side"], "out"), answers))
    if spec is SESSION_ACKS:
        theirs = pc.and_(theirs, pc.is_valid(rows[text]))
    return bool(pc.any(pc.and_(theirs, pc.is_null(rows["erased_at"]))).as_py())
