"""Gold from silver: each table takes the traces that have changed since its own mark, finds the days of their messages,
runs and responses, and makes these days anew; other days are not touched.

A table's mark moves with its rows, so a run that was killed is taken up table by table. Once a rebuild was begun,
a table makes all of its days anew; the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from manydesks.domain.clock import Clock
from manydesks.pipeline import tables
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.gold import (
    AGENT_DAILY,
    BUSY_HOURS,
    CHANNEL_DAILY,
    COST_DAILY,
    DEAD_LETTERS,
    GOLD,
    HANDOFF_MATRIX,
    SLO,
    TERMS_DAILY,
    TOPICS_DAILY,
    TRACE_SUMMARY,
)
from manydesks.pipeline.jobs.step import Ended, Progress, Step, unheard
from manydesks.pipeline.jobs.together import together
from manydesks.pipeline.jobs.topics import Topics, pieces_of, terms_about
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.planning import planned_for
from manydesks.pipeline.silver import HANDOFFS, MESSAGES, RESPONSES, RUNS, SILVER, SPANS, TRACES, TRANSCRIPTS
from manydesks.pipeline.tables import File, Mark, Range
from manydesks.pipeline.transforms.gold import agents, channels, costs, dead, handoffs, hours, slo, topics, traces
from manydesks.pipeline.transforms.traces import day_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: above every event
END = 1 << 62
#: the texts that `topics_daily` knows to be erased
ERASED = "erased_texts"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows of silver, by the time that says of which day they are; `day`: that of their trace."""

    spec: TableSpec
    at: str


STORED = Source(spec=MESSAGES, at="created_at")
DIED = Source(spec=MESSAGES, at="died_at")
BEGUN = Source(spec=RUNS, at="started_at")
SAID = Source(spec=RESPONSES, at="created_at")
HANDED = Source(spec=HANDOFFS, at="at")
WHOLE = tuple(Source(spec=spec, at=DAY) for spec in (TRACES, MESSAGES, RUNS, SPANS))


@dataclass(frozen=True, kw_only=True)
class Making:
    """How one table is made: of which rows, in the order of the function's arguments."""

    spec: TableSpec
    sources: tuple[Source, ...]
    of_silver: Callable[..., DataFrame]


MADE = (
    Making(spec=AGENT_DAILY, sources=(STORED, BEGUN, SAID, HANDED), of_silver=agents.of_silver),
    Making(spec=CHANNEL_DAILY, sources=(STORED, SAID), of_silver=channels.of_silver),
    Making(spec=HANDOFF_MATRIX, sources=(HANDED,), of_silver=handoffs.of_silver),
    Making(spec=TRACE_SUMMARY, sources=WHOLE, of_silver=traces.of_silver),
    Making(spec=COST_DAILY, sources=(BEGUN,), of_silver=costs.of_silver),
    Making(spec=DEAD_LETTERS, sources=(DIED,), of_silver=dead.of_silver),
    Making(spec=BUSY_HOURS, sources=(STORED,), of_silver=hours.of_silver),
    Making(spec=SLO, sources=(STORED, SAID), of_silver=slo.of_silver),
)
DATED = (STORED, DIED, BEGUN, SAID, HANDED)

ORDER = [spec.name for spec in (*(making.spec for making in MADE), TOPICS_DAILY)]


class Done(NamedTuple):
    """What a step has done."""

    #: rows in the files of silver that it opened
    taken: int
    #: rows that it wrote
    rows: int


NOTHING = Done(0, 0)


class Gold:
    """One refresh under the lake's lock, up to where silver reaches."""

    def __init__(
        self,
        held: HeldLake,
        spark: SparkSession,
        progress: Progress,
        clock: Clock,
        *,
        ended: Ended = unheard,
    ) -> None:
        self._held, self._spark, self._progress, self._clock = held, spark, progress, clock
        self._ended = ended
        self._lake = held.folder
        self._rebuild = tables.rebuilds(self._lake)
        self._upto = min(tables.covered(self._lake, spec, spec.name) for spec in SILVER)
        #: whoever holds it may look into what is below, and fill it
        self._finding = Lock()
        self._known: dict[int, dict[Source, set[str]]] = {}
        self.steps: list[Step] = []

    def refresh(self) -> None:
        """Running it twice changes nothing; killing it anywhere loses and repeats nothing."""
        for spec in GOLD:
            tables.ensure(self._held, spec)
        if not self._upto:
            return
        # the longest first, so that none is left to run alone at the end
        steps: list[Callable[[], None]] = [lambda: self._step(TOPICS_DAILY, self._topics, also=TERMS_DAILY)]
        steps += [partial(self._step, making.spec, partial(self._make, making)) for making in MADE]
        try:
            with planned_for(self._spark, self._upto - min(map(self._from, GOLD))):
                together(steps)
        finally:
            self.steps.sort(key=lambda step: ORDER.index(step.name))

    def _step(self, spec: TableSpec, work: Callable[[], Done], *, also: TableSpec | None = None) -> None:
        begun = self._clock.monotonic()
        self._progress(spec.name, 0, 1)
        wanted = [spec] if also is None else [spec, also]
        behind = any(self._from(one) < self._upto for one in wanted)
        wants = behind or (spec is TOPICS_DAILY and self._forgot())
        done = work() if wants else NOTHING
        self._progress(spec.name, done.taken, done.taken)
        seconds = (self._clock.monotonic() - begun) / 1000
        step = Step(name=spec.name, taken=done.taken, rows=done.rows, seconds=seconds)
        self.steps.append(step)
        self._ended(step)

    def _from(self, spec: TableSpec) -> int:
        return tables.reached(self._lake, spec, rebuild=self._rebuild)

    def _make(self, making: Making) -> Done:
        spec, after = making.spec, self._from(making.spec)
        days: set[str] | None = None
        if after:
            days = set().union(*(self._touched(after)[source] for source in making.sources))
            if not days:
                return self._advance(spec)
        found = [self._files(source, days if spec.by_day else None) for source in making.sources]
        rows = making.of_silver(
            *(self._rows(*each, days if spec.by_day else None) for each in zip(making.sources, found, strict=True))
        )
        taken = sum(map(tables.rows_of, found))
        self._progress(spec.name, 0, taken)
        if spec.by_day:
            written = tables.replace_days(self._held, spec, rows, days, self._mark(spec), self._clock, made_of=taken)
        else:
            written = tables.replace_all(self._held, spec, rows, self._mark(spec), self._clock)
        return Done(taken, written)

    def _topics(self) -> Done:
        """The words of the days that have new messages, or texts that were erased; then what they mean for the days
        that look back on them."""
        after = min(self._from(TERMS_DAILY), self._from(TOPICS_DAILY))
        erased = self._erased()
        texts = tables.read(self._spark, self._lake, TRANSCRIPTS)
        asked = topics.asked(texts).withColumn("own", day_of("at"))
        found = asked.groupBy(F.col(DAY).alias("silver"), "agent", "own").agg(F.max("seq").alias("seq")).collect()
        forgot = set(erased) if self._forgot() else set()
        plan = Topics(
            days={(row["agent"], row["own"]) for row in found},
            touched={row["own"] for row in found if row["seq"] > after or row["silver"] in forgot},
        )
        mark = self._mark(TOPICS_DAILY, {ERASED: sum(erased.values())})
        whole = after == 0
        if not whole and not plan.touched:
            self._advance(TERMS_DAILY)
            tables.advance(self._held, TOPICS_DAILY, mark, self._clock)
            return NOTHING
        said, days = Source(spec=TRANSCRIPTS, at="at"), None if whole else plan.touched
        opened = self._files(said, days)
        taken, size = tables.rows_of(opened), tables.bytes_of(opened)
        terms = topics.terms_of_silver(self._rows(said, opened, days), pieces_of(size))
        self._progress(TOPICS_DAILY.name, 0, taken)
        # first: counting a day's words twice changes nothing
        many = terms_about(taken, size)
        tables.replace_days(self._held, TERMS_DAILY, terms, days, self._mark(TERMS_DAILY), self._clock, made_of=many)
        wanted = None if whole else plan.wanted
        known = tables.snapshot(self._lake, TERMS_DAILY, days=None if whole else plan.needed)
        counted = tables.read_files(self._spark, self._lake, TERMS_DAILY, known)
        began = self._spark.createDataFrame(sorted(plan.first_days.items()), "agent string, first_day string")
        rows = topics.topics_of_terms(counted, began)
        if wanted is not None:
            rows = rows.where(F.col(DAY).isin(sorted(wanted)))
        written = tables.replace_days(
            self._held, TOPICS_DAILY, rows, wanted, mark, self._clock, made_of=tables.rows_of(known)
        )
        return Done(taken, written)

    def _erased(self) -> dict[str, int]:
        """How many texts of each day of silver are gone, by the log of the table alone."""
        gone: dict[str, int] = {}
        for file in tables.snapshot(self._lake, TRANSCRIPTS):
            if nulls := int(file.entry.get("null_count.text") or 0):
                day = str(file.entry[f"min.{DAY}"])
                gone[day] = gone.get(day, 0) + nulls
        return gone

    def _forgot(self) -> bool:
        """Whether texts were erased that the topics still know; also after a run that was killed in between."""
        return sum(self._erased().values()) != tables.covered(self._lake, TOPICS_DAILY, ERASED)

    def _touched(self, after: int) -> dict[Source, set[str]]:
        """The days of all rows whose trace has events above a mark."""
        with self._finding:
            if after not in self._known:
                self._known[after] = self._find_touched(after)
            return self._known[after]

    def _find_touched(self, after: int) -> dict[Source, set[str]]:
        newer = Range(column="last_seq", least=after + 1, most=END)
        found = tables.read(self._spark, self._lake, TRACES, newer).where(F.col("last_seq") > after)
        changed = found.select("trace", DAY).cache()
        try:
            silver_days = {row[DAY] for row in changed.select(DAY).distinct().collect()}
            known: dict[Source, set[str]] = dict.fromkeys(WHOLE, silver_days)
            names = F.broadcast(changed.select("trace"))
            parts = []
            for number, source in enumerate(DATED):
                rows = tables.read(self._spark, self._lake, source.spec, days=silver_days)
                dated = rows.where(F.col(source.at).isNotNull()).join(names, "trace", "left_semi")
                parts.append(dated.select(F.lit(number).alias("source"), day_of(source.at).alias(DAY)).distinct())
                known[source] = set()
            whole = parts[0]
            for part in parts[1:]:
                whole = whole.union(part)
            for row in whole.collect():
                known[DATED[row["source"]]].add(row[DAY])
            return known
        finally:
            changed.unpersist()

    def _files(self, source: Source, days: Collection[str] | None) -> list[File]:
        """Those that may hold rows of these days."""
        by_trace = days is None or source.at == DAY
        found = tables.snapshot(self._lake, source.spec, days=days if by_trace else None)
        if by_trace:
            return found
        wanted = [_range(source.at, day) for day in days or ()]
        return [file for file in found if any(file.may_hold(one) for one in wanted)]

    def _rows(self, source: Source, found: Collection[File], days: Collection[str] | None) -> DataFrame:
        """The rows of these days, from the files that may hold them."""
        rows = tables.read_files(self._spark, self._lake, source.spec, found)
        if days is None or source.at == DAY:
            return rows
        return rows.where(day_of(source.at).isin(sorted(days)))

    def _mark(self, spec: TableSpec, also: dict[str, int] | None = None) -> Mark:
        return Mark(app=spec.name, version=self._upto, also={tables.REBUILD: self._rebuild, **(also or {})})

    def _advance(self, spec: TableSpec) -> Done:
        if self._from(spec) < self._upto:
            tables.advance(self._held, spec, self._mark(spec), self._clock)
        return NOTHING


def _range(column: str, day: str) -> Range:
    try:
        begins = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:  # a day that no clock has told, and no calendar here knows: any file may hold it
        return Range(column=column, least=-(2**63), most=2**63 - 1)
    return Range(column=column, least=begins, most=begins + 86_399_999)
