"""What a person had the office forget goes from the lake too: from its current version by the next run, from the older
ones when they are vacuumed. The ledger names each text that was erased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import functions as F

from manydesks.domain.clock import Clock
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.jobs.forgotten import forget_mail
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place
from manydesks.pipeline.tables import Mark, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: how far in the ledger the texts of the lake were looked through
MARK = "erasures"


def erased_bodies(spark: SparkSession, lake: Place, after: int, upto: int) -> dict[int, int]:
    """The texts that were erased by the events `after < seq <= upto`, and when."""
    window = Range(column="seq", least=after + 1, most=upto)
    if lookup.few(lake, EVENTS, window):
        told = lookup.rows(lake, EVENTS, window, "seq", "kind", "body", "at")
        told = told.filter((pc.field("kind") == "body_erased") & pc.field("body").is_valid())
        return {row["body"]: row["at"] for row in told.to_pylist()}
    found = tables.read(spark, lake, EVENTS, window).where(
        (F.col("seq") > after) & (F.col("seq") <= upto) & (F.col("kind") == "body_erased") & F.col("body").isNotNull()
    )
    return {row["body"]: row["at"] for row in found.select("body", "at").collect()}


def erase(held: HeldLake, spark: SparkSession, clock: Clock) -> int:
    """Empties the texts of `bodies` that were erased since the last run, and what mailboxes had of them; how many
    texts there were.

    Rewrites the files that hold them, and no other.
    """
    upto = tables.covered(held.folder, EVENTS, EVENTS.name)
    after = tables.covered(held.folder, BODIES, MARK)
    if after >= upto:
        return 0
    mark = Mark(app=MARK, version=upto)
    gone = erased_bodies(spark, held.folder, after, upto)
    # before the mark moves: killed in between, it is done again
    forget_mail(held, spark, gone, clock)
    old = [
        file
        for file in tables.snapshot(held.folder, BODIES)
        if any(file.may_hold(Range(column="id", least=id, most=id)) for id in gone)
    ]
    if not old:
        tables.advance(held, BODIES, mark, clock)
        return 0
    when = F.create_map(*(F.lit(value) for pair in gone.items() for value in pair))[F.col("id")]
    rows = tables.read_files(spark, held.folder, BODIES, old).select(
        "id",
        F.when(when.isNull(), F.col("text")).otherwise(F.lit("")).alias("text"),
        F.coalesce("erased_at", when.cast("long")).alias("erased_at"),
    )
    tables.rewrite(held, BODIES, old, rows, clock, changes_data=True, mark=mark)
    return len(gone)
