"""The archivist: has the history put into the lake, each night or all the time, and says how it went."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from typing import Any

from manydesks.domain.clock import Clock
from manydesks.domain.errors import BUSY, ManyDesksError, OfficeError
from manydesks.office.door import Door
from manydesks.office.inforce import InForce
from manydesks.office.pipeline import record
from manydesks.office.pipeline.child import Child, Ended
from manydesks.office.pipeline.plan import Ask, Decision, End, Job, Skip, Standing, Start, decide, failures_after
from manydesks.office.pipeline.record import Last, Record
from manydesks.settings.home import Home
from manydesks.settings.model import PipelineSettings

log = logging.getLogger(__name__)

#: the extra's; asked for by name, so that nothing heavy is imported to find out
PACKAGES = ("pyspark", "pandas", "pyarrow", "deltalake")
#: how often it is decided what to do
LOOK_SECONDS = 1.0


def installed() -> bool:
    """Whether the pipeline's packages are there."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


class Archivist:
    """One task of the host, and at most one process beside it. Whatever fails there, the office goes on."""

    def __init__(self, home: Home, in_force: InForce, clock: Clock) -> None:
        self._home = home
        self._in_force = in_force
        self._clock = clock
        self._opened = clock.monotonic()
        self._installed = installed()
        self._record = record.read(home) or Record(level_at=clock.now())
        self._child: Child | None = None
        #: what the child was started with
        self._with: PipelineSettings | None = None
        #: the child was told to end: whatever its exit code is, it is no failure
        self._told = False
        self._ended_at: int | None = None
        self._failures = 0
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[Ended] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())
        self._task.add_done_callback(_say_why)

    async def stop(self, hurry: asyncio.Event) -> None:
        """What runs gets the time to finish its commit; none if there is a hurry."""
        if self._task is None:
            return
        self._task.cancel()
        hurried = asyncio.create_task(hurry.wait())
        await asyncio.wait({self._task, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not self._task.done() and self._child is not None:
            self._child.kill()
        await asyncio.gather(self._task, hurried, return_exceptions=True)

    def shown(self) -> dict[str, Any]:
        """For `manydesks status`."""
        child = self._child
        running = child and {"job": child.job, "pid": child.pid, "startedAt": child.started_at}
        last = self._record.last
        return {
            "auto": self._in_force.settings.pipeline.auto,
            "installed": self._installed,
            "running": running,
            "last": last
            and {
                "job": last.job,
                "startedAt": last.started_at,
                "endedAt": last.ended_at,
                "ok": last.ok,
                "reason": last.reason,
            },
        }

    async def look(self) -> Decision:
        """Decide, and act on it."""
        if self._waiting is not None and self._waiting.done():
            await self._take_end(self._waiting)
        decision = decide(self._standing(None))
        if isinstance(decision, Ask):
            behind = await asyncio.to_thread(self._behind)
            if behind is None:
                return decision
            decision = decide(self._standing(behind))
        match decision:
            case Start(job=job):
                await self._start(job)
            case End():
                self._end()
            case Skip():
                self._remember(Record(level_at=self._clock.now(), last=self._record.last))
            case _:
                pass
        return decision

    async def _keep(self) -> None:
        self._remember(self._record)
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self.look()
        finally:
            if self._child is not None and self._waiting is not None:
                self._child.leave()
                await asyncio.gather(self._waiting, return_exceptions=True)

    def _standing(self, behind: int | None) -> Standing:
        settings = self._in_force.settings.pipeline
        return Standing(
            now=self._clock.now(),
            open_ms=self._clock.monotonic() - self._opened,
            mode=settings.auto,
            at=settings.nightly_at,
            installed=self._installed,
            running=self._child.job if self._child is not None else None,
            outdated=self._with is not None and self._with != settings,
            level_at=self._record.level_at,
            ended_at=self._ended_at,
            failures=self._failures,
            busy=self._busy,
            behind=behind,
        )

    async def _start(self, job: Job) -> None:
        child = Child(self._home, job, self._clock)
        try:
            await child.start()
        except OfficeError as error:
            self._ended_at, self._busy = self._clock.now(), False
            self._failures += 1
            log.error("%s", error, extra={"action": "pipeline_failed"})
            return
        self._child, self._with, self._told = child, self._in_force.settings.pipeline, False
        self._waiting = asyncio.create_task(child.wait())
        log.info("The pipeline's %s has begun (process %s)", job, child.pid, extra={"action": "pipeline_begun"})

    def _end(self) -> None:
        if self._child is not None and not self._told:
            self._told = True
            self._child.leave()

    async def _take_end(self, waiting: asyncio.Task[Ended]) -> None:
        child, told = self._child, self._told
        assert child is not None
        self._child, self._waiting, self._with = None, None, None
        now = self._clock.now()
        if told:
            self._ended_at, self._failures, self._busy = None, 0, False
            log.info("The pipeline's %s was ended", child.job, extra={"action": "pipeline_ended"})
            return
        ended = waiting.result()
        self._busy = ended.code == BUSY
        if self._busy:
            self._ended_at = now
            log.info("The pipeline has to wait: %s", ended.said, extra={"action": "pipeline_busy"})
            return
        reason = None if ended.code == 0 else _reason(ended)
        last = Last(job=child.job, started_at=child.started_at, ended_at=now, ok=reason is None, reason=reason)
        level_at = child.started_at if child.job == "run" and reason is None else self._record.level_at
        self._remember(Record(level_at=level_at, last=last))
        if reason is None:
            # a watch that a person has ended is wanted all the same, but not in the same moment
            self._ended_at, self._failures = now if child.job == "watch" else None, 0
            log.info("The pipeline's %s has ended well", child.job, extra={"action": "pipeline_ended"})
            return
        self._ended_at = now
        ran_ms = self._clock.monotonic() - child.begun
        self._failures = failures_after(child.job, self._failures, ran_ms=ran_ms, killed=ended.code < 0)
        log.error("The pipeline's %s has failed: %s", child.job, reason, extra={"action": "pipeline_failed"})

    def _behind(self) -> int | None:
        """None: the store does not say just now."""
        try:
            reader = Door(self._home).reader()
        except ManyDesksError:
            return None
        try:
            return max(reader.head() - reader.archived(), 0)
        except ManyDesksError:
            return None
        finally:
            reader.close()

    def _remember(self, fresh: Record) -> None:
        if fresh != self._record or record.read(self._home) is None:
            record.write(self._home, fresh)
        self._record = fresh


def _reason(ended: Ended) -> str:
    if ended.code < 0:
        return f"it was ended by signal {-ended.code}"
    return ended.said or f"it ended with {ended.code}"


def _say_why(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("The archivist has failed; the lake stays as it is until the office is opened again", exc_info=error,
                  extra={"action": "archivist_failed"})  # fmt: skip
