"""The lake kept fresh: Structured Streaming sees new events twice a second; bronze and silver take them at once, gold
and what is published from it once a minute.

Every round takes the lake's lock, compares with the lake's own marks, and lets go: `run`, `compact` or a backup come
between two rounds, and whatever they did, nothing is taken twice. A busy lake costs a round, never the watch: what was
not taken then is taken by the next one.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import LakeBusy, LakeRefused, PipelineError
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.disk import disk_refusals
from manydesks.pipeline.failure import SPARK_FAILURES, in_one_sentence, sentence
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.jobs.archive import Archive, ArchiveReport, check_archive
from manydesks.pipeline.jobs.erase import MARK as ERASURES
from manydesks.pipeline.jobs.runs import recorded
from manydesks.pipeline.jobs.sessions import Sessions
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.jobs.tail import Tail
from manydesks.pipeline.jobs.whole import refresh
from manydesks.pipeline.lock import HeldLake, hold, watching
from manydesks.pipeline.place import Place
from manydesks.pipeline.publish import published, published_damage
from manydesks.pipeline.rebuilding import unbuilt
from manydesks.pipeline.session import reads_files_here
from manydesks.pipeline.silver import SILVER
from manydesks.pipeline.sources.ledger import heads
from manydesks.pipeline.sources.stream import BATCH, tail
from manydesks.pipeline.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: how often Spark looks for new events
TRIGGER = "500 milliseconds"
#: how often everything else is looked at: whether to end, whether gold is due
TICK_SECONDS = 0.25
#: between two rounds of gold
GOLD_SECONDS = 60.0
#: how long a round waits for a busy lake before it leaves its events to the next one
PATIENCE_SECONDS = 60.0
#: a stream that fell is started again after so long; after the last of them it is not
FALLS_SECONDS = (0.0, 1.0, 5.0, 15.0, 30.0)
#: after a round that was left out, before the lake is tried again
AGAIN_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one round did."""

    #: `events`: bronze and silver; `gold`: what is made of them
    kind: str
    #: events that bronze took
    events: int
    #: bronze reaches this event
    to_seq: int
    #: how long the round took, the waiting for the lake included
    seconds: float
    #: events that the ledger has by now, and the lake has not
    behind: int


class _Stopped(Exception):
    """Inner to a watch: it was told to end, between two commits."""


class _Noted(PipelineError):
    """Inner to a watch: a failure that is raised once more, for the row about it."""


@dataclass(frozen=True, kw_only=True)
class _Since:
    """What was done since the last row of `pipeline_runs`."""

    from_seq: int
    to_seq: int
    rows: int
    bodies: int

    def then(self, done: ArchiveReport) -> _Since:
        return _Since(
            from_seq=self.from_seq,
            to_seq=done.to_seq,
            rows=self.rows + done.rows,
            bodies=self.bodies + done.bodies,
        )


class Watch:
    """One for a process. `run` stays until `stop` is asked for, and leaves after the commit that is under way."""

    def __init__(
        self,
        db: Path,
        lake: Place,
        spark: SparkSession,
        folder: Path,
        *,
        told: Callable[[Round], None],
        archived: Callable[[int], bool],
        stop: Stop,
        clock: Clock | None = None,
        gold_seconds: float = GOLD_SECONDS,
        batch: int = BATCH,
    ) -> None:
        """`folder`: for Spark's checkpoint, which is begun anew each time. `archived`: told after bronze has grown how
        far the lake reaches; False: it is to be told again. `told`: after each round."""
        self._db, self._lake, self._spark, self._folder = db, lake, spark, folder / "watch"
        self._told, self._archived, self._stop = told, archived, stop
        self._clock = clock or SystemClock()
        self._gold_seconds = gold_seconds
        self._batch_rows = batch
        #: rounds come from Spark's thread and from ours: one at a time
        self._turn = threading.Lock()
        self._failure: BaseException | None = None
        #: whatever the reason: no round is to begin any more
        self._ending = False
        #: streams that fell one after the other, without a batch between
        self._falls = 0
        #: there is a row about the failure already
        self._noted = False
        #: what `archived` was told last
        self._marked = 0
        self._since: _Since | None = None
        #: when gold may be made again
        self._gold_at = 0.0
        #: gold lacks what silver has
        self._gold_behind = False
        #: a round was left out: tried again then
        self._again_at: float | None = None

    def run(self) -> None:
        """Raises `LakeWatched` if another watch is there, and what ended this one otherwise than by `stop`."""
        check_archive(self._db, self._lake)
        with watching(self._lake), disk_refusals(self._lake):
            try:
                with suppress(_Stopped), self._as_wished():
                    self._in_turn(self._catch_up)
                    self._gold_behind = not level(self._lake)
                    if not self._over:
                        self._follow()
                    if self._failure is not None:
                        raise self._failure
                self._sign_off(None)
            except LakeRefused:  # not the lake to leave a row in
                raise
            except PipelineError as error:
                if not self._noted:
                    self._sign_off(error)
                raise
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _over(self) -> bool:
        return self._ending or self._stop.asked or self._failure is not None

    @contextmanager
    def _as_wished(self) -> Iterator[None]:
        """A signal to a whole group of processes ends Spark's Java and its Python as well, one before the other: what
        Spark says of that is no failure. What else was wrong in that moment, the next watch meets again."""
        try:
            yield
        except PipelineError as error:
            if not (self._stop.asked and isinstance(error.__cause__, SPARK_FAILURES)):
                raise
            raise _Stopped from error

    def _follow(self) -> None:
        if not reads_files_here(self._spark):
            self._poll()
            return
        query = self._start()
        try:
            while not self._over:
                time.sleep(TICK_SECONDS)
                if (why := self._fallen(query)) is None:
                    self._look()
                elif self._patience_with(why):
                    query = self._start()
        finally:
            # not in the middle of a round: Spark would interrupt it
            self._ending = True
            with self._turn, suppress(*SPARK_FAILURES):  # its Java may be gone, and the stream with it
                query.stop()

    def _poll(self) -> None:
        """For a cluster, whose machines cannot read the store: a stream could only say that there is more. And it could
        not even that, since what is sent to the workers is not sent to the process in which Spark plans a stream."""
        taken = 0
        while not self._over:
            time.sleep(TICK_SECONDS)
            self._look()
            if (head := heads(self._db).events) > taken and self._again_at is None:
                self._in_turn(lambda: self._take(None))
                taken = head

    def _start(self) -> StreamingQuery:
        shutil.rmtree(self._folder, ignore_errors=True)
        reached = tables.covered(self._lake, EVENTS, EVENTS.name)
        with in_one_sentence("Spark could not follow the ledger"):
            stream = tail(self._spark, self._db, reached, batch=self._batch_rows).writeStream
            stream = stream.foreachBatch(self._batch).trigger(processingTime=TRIGGER)
            return stream.option("checkpointLocation", str(self._folder)).start()

    def _fallen(self, query: StreamingQuery) -> str | None:
        """Why the stream has ended; None: it has not."""
        with in_one_sentence("Spark could not follow the ledger"):
            if query.isActive:
                return None
            error = query.exception()
        return sentence(error) if error is not None else "Spark has ended the stream."

    def _patience_with(self, why: str) -> bool:
        """On a machine that is very busy Spark gives up on a process that is only slow to start: it is tried again.
        False: it was told to end meanwhile."""
        with self._turn:
            check_archive(self._db, self._lake)  # what Spark says of a store that is gone is Python's stack trace
        if self._falls >= len(FALLS_SECONDS):
            raise PipelineError(reason=f"the ledger could not be followed: {why}")
        until = self._now() + FALLS_SECONDS[self._falls]
        self._falls += 1
        while not self._over and self._now() < until:
            time.sleep(TICK_SECONDS)
        return not self._over

    def _look(self) -> None:
        now = self._now()
        if self._again_at is not None and now >= self._again_at:
            self._in_turn(self._catch_up)
        if self._gold_behind and now >= self._gold_at:
            self._in_turn(self._gold)

    def _batch(self, rows: DataFrame, number: int) -> None:
        """Called by Spark, in a thread of its own. What goes wrong is raised by `run`, in one sentence."""
        self._falls = 0
        self._in_turn(lambda: self._take(rows))

    def _in_turn(self, work: Callable[[], None]) -> None:
        while not self._turn.acquire(timeout=TICK_SECONDS):
            if self._over:
                return
        try:
            with disk_refusals(self._lake), in_one_sentence("Spark could not keep the lake fresh"):
                if not self._over:
                    work()
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001  # `run` raises it; raised here, Spark would wrap it in Java's
            self._failure = error
        finally:
            self._turn.release()

    def _take(self, rows: DataFrame | None) -> None:
        """`rows`: what a stream has read; None: whatever there is."""
        begun = self._now()
        batch = None
        if rows is not None:
            with in_one_sentence("Spark could not read the ledger"):
                batch = rows.toArrow()
        with self._held() as held:
            if held is not None:
                self._bring(held, Tail(self._db, held, self._spark, self._progress, self._clock, batch), begun)

    def _catch_up(self) -> None:
        begun = self._now()
        with self._held() as held:
            if held is not None:
                self._bring(held, Archive(self._db, held, self._spark, self._progress, self._clock), begun)

    def _bring(self, held: HeldLake, work: Archive, begun: float) -> None:
        try:
            work.go()
        finally:
            done = work.report()
            self._mark(done.to_seq)
            start = _Since(from_seq=done.from_seq, to_seq=done.to_seq, rows=0, bodies=0)
            self._since = (self._since or start).then(done)
        if done.rows or done.bodies:
            self._gold_behind = True
            Silver(held, self._spark, self._progress, self._clock).refresh()
            self._tell("events", done.rows, done.to_seq, begun)

    def _mark(self, reached: int) -> None:
        if reached > self._marked and self._archived(reached):
            self._marked = reached

    def _gold(self) -> None:
        begun = self._now()
        with self._held() as held:
            if held is None:
                return
            reached = tables.covered(self._lake, EVENTS, EVENTS.name)
            self._mark(reached)
            since = self._since or _Since(from_seq=reached, to_seq=reached, rows=0, bodies=0)
            try:
                with recorded(held, self._clock, "watch") as note:
                    note(since)
                    with self._as_wished():
                        Sessions(self._db.parent, held, self._spark, self._progress, self._clock).go()
                        refresh(held, self._spark, self._progress, self._clock)
            except PipelineError:
                self._noted = True
                raise
            self._since, self._gold_behind = None, False
            self._gold_at = begun + self._gold_seconds
            self._tell("gold", 0, reached, begun)

    def _sign_off(self, failure: PipelineError | None) -> None:
        """The row about what was done since the last one, and about the end; gold is left to the next start."""
        if failure is None and (self._since is None or not self._since.rows):
            return
        with (
            suppress(LakeBusy, _Noted),
            hold(self._lake, patience=AGAIN_SECONDS) as held,
            recorded(held, self._clock, "watch") as note,
        ):
            if self._since is not None:
                note(self._since)
            if failure is not None:
                raise _Noted(str(failure))

    @contextmanager
    def _held(self) -> Iterator[HeldLake | None]:
        """The lake, waited for; None: it was busy all the time, and is tried again by and by."""
        self._again_at = None
        with ExitStack() as stack:
            held = None
            try:
                held = stack.enter_context(hold(self._lake, patience=PATIENCE_SECONDS, waits=self._waits))
            except LakeBusy:
                self._again_at = self._now() + AGAIN_SECONDS
                self._gold_at = max(self._gold_at, self._again_at)
            yield held

    def _waits(self, pid: str) -> None:
        if self._over:
            raise _Stopped

    def _progress(self, step: str, done: int, total: int) -> None:
        """Told at the start of each step and after each commit: there it may end."""
        if self._over:
            raise _Stopped

    def _tell(self, kind: str, events: int, to_seq: int, begun: float) -> None:
        behind = max(heads(self._db).events - to_seq, 0)
        self._told(
            Round(kind=kind, events=events, to_seq=to_seq, seconds=self._now() - begun, behind=behind),
        )

    def _now(self) -> float:
        return self._clock.monotonic() / 1000


def level(lake: Place) -> bool:
    """Whether everything that is made of bronze reaches as far as bronze does, what is published included."""
    reached = tables.covered(lake, EVENTS, EVENTS.name)
    made = all(tables.reached(lake, spec) >= reached for spec in (*SILVER, *GOLD))
    return (
        made
        and not unbuilt(lake)
        and (published(lake) or 0) >= reached
        and published_damage(lake) is None
        and tables.covered(lake, BODIES, ERASURES) >= reached
    )
