"""What a person had the office forget goes from the lake too: from its current version by the next run, from the older
ones when they are vacuumed. The ledger names each text that was erased."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import functions as F

from manydesks.domain.clock import Clock
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.jobs.forgotten import forget_mail
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place
from manydesks.pipeline.sources.ledger import ERASURE, erasures, oldest
from manydesks.pipeline.tables import Mark, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: how far in the ledger the texts of the lake were looked through
MARK = "erasures"


def erased_bodies(spark: SparkSession, lake: Place, after: int, upto: int) -> dict[int, int]:
    """The texts that were erased by the events `after < seq <= upto`, and when."""
    window = Range(column="seq", least=after + 1, most=upto)
    if lookup.few(lake, EVENTS, window):
        return {row["body"]: row["at"] for row in _erasures(lake, window)}
    found = tables.read(spark, lake, EVENTS, window).where(
        (F.col("seq") > after) & (F.col("seq") <= upto) & (F.col("kind") == ERASURE) & F.col("body").isNotNull()
    )
    return {row["body"]: row["at"] for row in found.select("body", "at").collect()}


def waiting(lake: Place, db: Path) -> int:
    """How many texts were forgotten that the lake may still have, until the next run. Needs no Spark."""
    if not tables.covered(lake, EVENTS, EVENTS.name):
        return 0
    after, first = tables.covered(lake, BODIES, MARK), oldest(db)
    # what the store has let go of since, the lake alone has
    let_go = Range(column="seq", least=after + 1, most=first - 1)
    return erasures(db, after) + (len(_erasures(lake, let_go)) if after + 1 < first else 0)


def _erasures(lake: Place, window: Range) -> list[dict[str, Any]]:
    told = lookup.rows(lake, EVENTS, window, "seq", "kind", "body", "at")
    found: list[dict[str, Any]] = told.filter((pc.field("kind") == ERASURE) & pc.field("body").is_valid()).to_pylist()
    return found


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
