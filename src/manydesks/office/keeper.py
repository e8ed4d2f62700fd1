"""The keeper: carries out what is old, a little at a time, while the office works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from manydesks.desk.logbook import sweep as sweep_logs
from manydesks.domain.clock import Clock
from manydesks.domain.errors import StoreError
from manydesks.office.files import sweep
from manydesks.settings.home import Home
from manydesks.settings.model import RetentionSettings
from manydesks.store.retention import Pruned, Reach
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: Between two rounds, and before the first one: a machine that comes up with a wrong clock has asked for the time by
#: then.
ROUND_MS = 600_000
#: how often it is looked whether a round is due
LOOK_SECONDS = 1.0
#: the writer is anybody's between two steps
PAUSE_SECONDS = 0.05

DAY_MS = 24 * 3_600_000


async def prune(
    store: Store,
    rules: RetentionSettings,
    *,
    lake: Callable[[], Reach | None],
    steps: int | None = None,
    pause_seconds: float = 0.0,
) -> Pruned:
    """Steps of retention, until nothing is left to remove or `steps` are done; what they did together.

    `lake`: what it is seen to hold, as `lake_reach` says; asked once, in a thread.
    """
    done = Pruned()
    reach = await asyncio.to_thread(lake) if rules.require_archive else None
    while steps is None or steps > 0:
        step = await store.prune(keep_ms=round(rules.days * DAY_MS), require_archive=rules.require_archive, lake=reach)
        done = done.then(step)
        if not step.more:
            break
        steps = None if steps is None else steps - 1
        await asyncio.sleep(pause_seconds)
    return done


class Keeper:
    """One task of the host. A store that cannot be written costs it a round, never its life."""

    def __init__(
        self,
        store: Store,
        rules: RetentionSettings,
        clock: Clock,
        home: Home | None = None,
        *,
        lake: Callable[[], Reach | None] = lambda: None,
    ) -> None:
        self._store = store
        #: whose `files/` are swept of what no row names any more, and whose old logs go; None: nobody's
        self._home = home
        self._rules = rules
        self._lake = lake
        self._clock = clock
        self._last = clock.monotonic()
        self._task: asyncio.Task[None] | None = None

    def take_settings(self, rules: RetentionSettings) -> None:
        """These count from the next round on."""
        self._rules = rules

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())
        self._task.add_done_callback(_say_why)

    async def stop(self) -> None:
        """A step that is under way is finished by the store all the same."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> Pruned | None:
        """A round, if one is due; None: none was, or the store refused."""
        if self._clock.monotonic() - self._last < ROUND_MS:
            return None
        self._last = self._clock.monotonic()
        try:
            done = await prune(self._store, self._rules, lake=self._lake, pause_seconds=PAUSE_SECONDS)
            if self._home is not None:
                await sweep(self._store, self._home, self._clock)
                before = self._clock.now() - round(self._rules.days * DAY_MS)
                await asyncio.to_thread(sweep_logs, self._home.logs / "desks", before)
        except StoreError as error:
            log.error("Nothing more was pruned: %s", error, extra={"action": "prune_failed"})
            return None
        if any(done.counts.values()):
            removed = ", ".join(f"{n} {name}" for name, n in done.counts.items())
            log.info("Pruned %s; the ledger begins at %d", removed, done.first, extra={"action": "pruned"})
        return done

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()


def _say_why(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("The keeper has failed; nothing is pruned until the office is opened again", exc_info=error,
                  extra={"action": "keeper_failed"})  # fmt: skip
