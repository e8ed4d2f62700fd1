"""Transcripts for other programs: a conversation after another, as the usual chat format has them.

Spark puts them together; what must not go out is masked here, so that no secret travels to an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from manydesks.pipeline import tables
from manydesks.pipeline.columns import DAY
from manydesks.pipeline.failure import in_one_sentence
from manydesks.pipeline.jobs.step import Progress
from manydesks.pipeline.merging import size
from manydesks.pipeline.place import Place
from manydesks.pipeline.silver import MESSAGES, TRANSCRIPTS
from manydesks.pipeline.transforms import conversations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: days are taken together up to so many bytes of files, and come to this process in parts of about so many
ROUND_BYTES = 256 << 20
PART_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which conversations; whatever is not given does not matter."""

    agents: Collection[str] = ()
    #: days of their traces, `YYYY-MM-DD`, both included
    since: str | None = None
    until: str | None = None
    #: completed, dead, cancelled or open, as `conversations.outcomes` has them
    outcome: str | None = None

    def day(self, day: str) -> bool:
        return (self.since is None or day >= self.since) and (self.until is None or day <= self.until)


def export(
    lake: Place, spark: SparkSession, wanted: Wanted, redact: Callable[[str], str], progress: Progress
) -> Iterator[dict[str, Any]]:
    """The conversations, each as `{"messages": [{"role", "content"}, …], …}`, oldest first: by the day of the trace and
    then by the event of the first turn. The same lake gives the same lines.

    Every content went through `redact`. Raises `PipelineError` if the lake has no transcripts, or Spark fails.
    """
    found = tables.snapshot(lake, TRANSCRIPTS) if tables.exists(lake, TRANSCRIPTS) else []
    weights: dict[str, int] = {}
    for file in found:
        day = str(file.entry[f"min.{DAY}"])
        if wanted.day(day):
            weights[day] = weights.get(day, 0) + size(file)
    done = 0
    for days in _rounds(weights):
        progress("days", done, len(weights))
        weight = sum(weights[day] for day in days)
        with in_one_sentence("the transcripts could not be read"):
            for row in _rows(lake, spark, wanted, days, weight).toLocalIterator():
                yield {
                    "messages": [{"role": turn["role"], "content": redact(turn["content"])} for turn in row["turns"]],
                    "trace": row["trace"],
                    "agent": row["agent"],
                    "day": row["day"],
                    "outcome": row["outcome"],
                    "at": row["at"],
                    "erased": row["erased"],
                }
        done += len(days)
    progress("days", done, len(weights))


def heard(lake: Place, spark: SparkSession, agents: Collection[str]) -> set[str]:
    """Those of the agents with whom anything was spoken, whenever."""
    if not agents or not tables.exists(lake, TRANSCRIPTS):
        return set()
    said = tables.read(spark, lake, TRANSCRIPTS).where(F.col("agent").isin(*agents)).select("agent").distinct()
    with in_one_sentence("the transcripts could not be read"):
        return {row["agent"] for row in said.collect()}


def _rows(lake: Place, spark: SparkSession, wanted: Wanted, days: list[str], weight: int) -> DataFrame:
    said = tables.read(spark, lake, TRANSCRIPTS, days=days)
    messages = tables.read(spark, lake, MESSAGES, days=days)
    if wanted.agents:
        chosen = F.col("agent").isin(*wanted.agents)
        said, messages = said.where(chosen), messages.where(chosen)
    rows = conversations.of_silver(said, messages)
    if wanted.outcome is not None:
        rows = rows.where(F.col("outcome") == wanted.outcome)
    order = ("day", "first_seq")
    return rows.repartitionByRange(1 + weight // PART_BYTES, *order).sortWithinPartitions(*order)


def _rounds(weights: dict[str, int]) -> Iterator[list[str]]:
    days: list[str] = []
    for day in sorted(weights):
        if days and sum(weights[one] for one in days) + weights[day] > ROUND_BYTES:
            yield days
            days = []
        days.append(day)
    if days:
        yield days
