"""Silver from bronze: each table takes the events above its own mark, and replaces the days of the traces they touch.

A table's mark moves with its rows, so a run that was killed is taken up table by table. Once a rebuild was begun,
a table makes all of its days anew; the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from manydesks.domain.clock import Clock
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.beginning import begins
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.columns import DAY, TableSpec
from manydesks.pipeline.jobs.erase import erased_bodies
from manydesks.pipeline.jobs.step import Ended, Progress, Step, unheard
from manydesks.pipeline.jobs.together import together
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.planning import planned_for
from manydesks.pipeline.silver import (
    HANDOFFS,
    MESSAGES,
    QUARANTINED_SPANS,
    RESPONSES,
    RUNS,
    SILVER,
    SPANS,
    TRACES,
    TRANSCRIPTS,
    USAGE,
)
from manydesks.pipeline.tables import Mark, Range
from manydesks.pipeline.transforms import handoffs, messages, paths, responses, runs, spans, traces, transcripts
from manydesks.pipeline.transforms.fold import folded, merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[["DataFrame"], "DataFrame"]


def _as_it_is(rows: DataFrame) -> DataFrame:
    return rows


@dataclass(frozen=True, kw_only=True)
class Making:
    """How one table is made of events."""

    spec: TableSpec
    of_events: Transform
    #: makes the columns that no fold gives
    finished: Transform = _as_it_is


#: tables whose rows need nothing but their own events
FOLDED = (
    Making(spec=MESSAGES, of_events=messages.of_events),
    Making(spec=RUNS, of_events=runs.of_events),
    Making(spec=RESPONSES, of_events=responses.of_events, finished=responses.finished),
    Making(spec=HANDOFFS, of_events=handoffs.of_events, finished=handoffs.finished),
    Making(spec=USAGE, of_events=runs.usage_of_events),
)


ORDER = [spec.name for spec in SILVER]


class Silver:
    """One refresh under the lake's lock, up to where bronze reaches."""

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
        self._upto = tables.covered(self._lake, EVENTS, EVENTS.name)
        self._begins = begins(self._lake)
        #: whoever holds it may look into what is below, and fill it
        self._finding = Lock()
        #: by marks: the events above it, and their traces
        self._above: dict[int, DataFrame] = {}
        self._known: dict[int, DataFrame] = {}
        self._known_days: dict[int, set[str]] = {}
        #: rows that the step of spans has written beside its own
        self._quarantined = 0
        self.steps: list[Step] = []

    def refresh(self) -> None:
        """Running it twice changes nothing; killing it anywhere loses and repeats nothing."""
        for spec in SILVER:
            tables.ensure(self._held, spec)
        steps: list[Callable[[], None]] = [lambda: self._step(SPANS, self._spans, also=QUARANTINED_SPANS)]
        steps += [partial(self._step, making.spec, partial(self._fold, making)) for making in FOLDED]
        steps.append(lambda: self._step(TRANSCRIPTS, self._transcripts))
        try:
            with planned_for(self._spark, self._upto - min(map(self._from, SILVER))):
                self._step(TRACES, self._traces)
                together(steps)
        finally:
            self.steps.sort(key=lambda step: ORDER.index(step.name))
            for found in self._known.values():
                found.unpersist()

    def _step(self, spec: TableSpec, work: Callable[[], int], *, also: TableSpec | None = None) -> None:
        begun = self._clock.monotonic()
        wanted = [spec] if also is None else [spec, also]
        behind = any(self._from(one) < self._upto for one in wanted)
        # the ledger has no gaps: so many events lie above the mark
        taken = self._upto - max(min(self._from(one) for one in wanted), min(self._begins - 1, self._upto))
        self._progress(spec.name, 0, taken)
        rows = work() if behind else 0
        self._progress(spec.name, taken, taken)
        seconds = (self._clock.monotonic() - begun) / 1000
        step = Step(name=spec.name, taken=taken, rows=rows, seconds=seconds)
        self.steps.append(step)
        self._ended(step)
        if also is not None and self._quarantined:
            # made in the same go
            self.steps.append(Step(name=also.name, taken=taken, rows=self._quarantined, seconds=seconds))

    def _from(self, spec: TableSpec) -> int:
        return tables.reached(self._lake, spec, rebuild=self._rebuild)

    def _mark(self, spec: TableSpec) -> Mark:
        return Mark(app=spec.name, version=self._upto, also={tables.REBUILD: self._rebuild})

    def _window(self, after: int) -> Range:
        return Range(column="seq", least=after + 1, most=self._upto)

    def _events(self, after: int) -> DataFrame:
        """Opened once, since most tables have the same mark: Spark looks at each file each time."""
        with self._finding:
            if after not in self._above:
                self._above[after] = self._read_events(after)
            return self._above[after]

    def _read_events(self, after: int) -> DataFrame:
        window = self._window(after)
        found = tables.snapshot(self._lake, EVENTS, window)
        rows = tables.read_files(self._spark, self._lake, EVENTS, found)
        if all(file.lies_in(window) for file in found):
            # the numbers would be part of the code that Spark makes of a plan, and it would be made anew each time
            return rows
        return rows.where((F.col("seq") > after) & (F.col("seq") <= self._upto))

    def _traces(self) -> int:
        after = self._from(TRACES)
        new = self._upto - after
        delta = merged(TRACES, tables.gathered(traces.of_events(self._events(after)), new))
        if after == 0:
            return self._write(TRACES, traces.finished(delta), None, new)
        with self._kept(traces.finished(delta), new) as found:
            days = self._days_of_traces(found, new)
            old, known = self._old(TRACES, days)
            both = tables.gathered(found.drop(DAY).unionByName(old.drop(DAY)), new + known)
            return self._write(TRACES, traces.finished(merged(TRACES, both)), days, new + known)

    def _days_of_traces(self, delta: DataFrame, new: int) -> set[str]:
        """Of these, and of what is known of them."""
        named = delta.select("trace", DAY)
        if new <= tables.FEW:
            few = named.toArrow()
            return set(few.column(DAY).to_pylist()) | lookup.days_with(self._lake, TRACES, "trace", few.column("trace"))
        known = tables.read(self._spark, self._lake, TRACES).select("trace", DAY)
        old_days = known.join(F.broadcast(delta.select("trace")), "trace", "left_semi").select(DAY)
        return _days(named.select(DAY).union(old_days))

    def _fold(self, making: Making) -> int:
        spec = making.spec
        after = self._from(spec)
        touched = self._touched(after)
        delta = making.of_events(self._events(after)).join(F.broadcast(touched), "trace")
        new = self._upto - after
        if after == 0:
            return self._write(spec, making.finished(merged(spec, delta)), None, new)
        days = self._days(after)
        old, known = self._old(spec, days)
        both = tables.gathered(delta.unionByName(folded(spec, old)), new + known)
        return self._write(spec, making.finished(merged(spec, both)), days, new + known)

    def _spans(self) -> int:
        marks = {self._from(SPANS), self._from(QUARANTINED_SPANS)}
        after = min(marks)
        # One that a late event has mended leaves the one table before it comes to the other. If a run died in between,
        # neither has it, and only all events of its trace tell of it.
        since = after if len(marks) == 1 else 0
        touched = self._touched(after)
        # whatever is done with spans is done trace by trace
        delta = spans.of_events(self._events(since)).join(F.broadcast(touched), "trace")
        days, count, was_bad = None, self._upto - since, 0
        if after:
            days = self._days(after)
            old, was_sound = self._old(SPANS, days)
            delta = delta.unionByName(folded(SPANS, old))
            bad, was_bad = self._old(QUARANTINED_SPANS, days)
            if was_bad:
                delta = delta.unionByName(folded(QUARANTINED_SPANS, bad))
            count += was_sound + was_bad
        began = tables.read(self._spark, self._lake, TRACES, days=days)
        with self._kept(paths.judged(merged(SPANS, self._by_trace(delta, count)), began), count) as known:
            # first, and so the one to be ahead: seeing an event twice changes no span, missing one would
            bad = known.where(F.col("reason").isNotNull())
            # mostly there are none, and there were none: nothing is written
            none = bad.isEmpty()
            untouched = none and days is not None and not was_bad
            self._quarantined = self._write(QUARANTINED_SPANS, bad, set() if untouched else days, count)
            sound = known.drop("reason") if none else paths.sound(known)
            return self._write(SPANS, paths.placed(sound), days, count)

    @contextmanager
    def _kept(self, rows: DataFrame, made_of: int) -> Iterator[DataFrame]:
        """These rows for several queries, worked out once. A few come here and go along with each query."""
        if made_of <= tables.FEW_HERE:
            yield tables.gathered(self._spark.createDataFrame(rows.toArrow(), rows.schema), made_of)
            return
        kept = rows.persist()
        try:
            yield kept
        finally:
            kept.unpersist()

    def _by_trace(self, rows: DataFrame, count: int) -> DataFrame:
        if count <= tables.FEW:
            return rows.coalesce(1)
        # a number, or else Spark forgets how the rows lie, and moves them for each thing that is done with a trace
        return rows.repartition(int(self._spark.conf.get("spark.sql.shuffle.partitions") or 1), "trace")

    def _transcripts(self) -> int:
        after = self._from(TRANSCRIPTS)
        touched = self._touched(after)
        delta = transcripts.of_events(self._events(after)).join(F.broadcast(touched), "trace")
        named = tables.range_of(tables.snapshot(self._lake, EVENTS, self._window(after)), "body", as_column="id")
        bodies = tables.read(self._spark, self._lake, BODIES, *([named] if named is not None else []))
        rows = transcripts.finished(delta, bodies)
        gone = erased_bodies(self._spark, self._lake, after, self._upto)
        new = self._upto - after
        if after == 0:
            return self._write(TRANSCRIPTS, transcripts.without(rows, gone), None, new)
        # what was erased since may have been said on any day
        days = self._days(after) | (self._days_that_said(gone) if gone else set())
        old, known = self._old(TRANSCRIPTS, days)
        both = tables.gathered(rows.unionByName(old), new + known)
        return self._write(TRANSCRIPTS, transcripts.without(both, gone), days, new + known)

    def _days_that_said(self, bodies: Collection[int]) -> set[str]:
        return _days(tables.read(self._spark, self._lake, TRANSCRIPTS).where(F.col("body").isin(list(bodies))))

    def _old(self, spec: TableSpec, days: set[str]) -> tuple[DataFrame, int]:
        """What a table has of these days, and how many rows that is."""
        found = tables.snapshot(self._lake, spec, days=days)
        return tables.read_files(self._spark, self._lake, spec, found), tables.rows_of(found)

    def _touched(self, after: int) -> DataFrame:
        """The traces with events above a mark, and their days; found once, since most tables have the same mark."""
        with self._finding:
            if after not in self._known:
                window = Range(column="last_seq", least=after + 1, most=self._upto)
                if lookup.few(self._lake, TRACES, window):
                    # few are handed over with each query: no other has to be run to have them
                    few = lookup.rows(self._lake, TRACES, window, "trace", DAY, "last_seq").select(["trace", DAY])
                    self._known[after] = self._spark.createDataFrame(few)
                    self._known_days[after] = set(few.column(DAY).to_pylist())
                else:
                    found = tables.read(self._spark, self._lake, TRACES, window).where(F.col("last_seq") > after)
                    self._known[after] = found.select("trace", DAY).persist()
            return self._known[after]

    def _days(self, after: int) -> set[str]:
        touched = self._touched(after)
        with self._finding:
            if after not in self._known_days:
                self._known_days[after] = _days(touched)
            return self._known_days[after]

    def _write(self, spec: TableSpec, rows: DataFrame, days: set[str] | None, made_of: int) -> int:
        if days is not None and not days:
            tables.advance(self._held, spec, self._mark(spec), self._clock)
            return 0
        return tables.replace_days(self._held, spec, rows, days, self._mark(spec), self._clock, made_of=made_of)


def _days(rows: DataFrame) -> set[str]:
    return {row[0] for row in rows.select(DAY).distinct().collect()}
