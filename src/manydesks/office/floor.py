"""The floor: every place that has or had work, who works there now, and what is under way about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from manydesks.desk.base import Seat
from manydesks.domain.caps import Caps
from manydesks.domain.clock import Clock
from manydesks.domain.envelope import Claimed
from manydesks.domain.failure import Failure
from manydesks.office.inforce import InForce
from manydesks.office.patience import until_stored
from manydesks.office.place import Place
from manydesks.office.rules import rules
from manydesks.office.threads import MailboxThreads
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.outcome import Rules
from manydesks.store.store import Store

log = logging.getLogger(__name__)


class Floor:
    """What the parts of dispatch share. One run at a time per session; sessions side by side."""

    def __init__(self, store: Store, home: Home, in_force: InForce, clock: Clock, threads: MailboxThreads) -> None:
        self.store = store
        self.home = home
        self.clock = clock
        self.threads = threads
        self._in_force = in_force
        self._rules = in_force.settings, rules(in_force.settings)
        self.places: dict[str, Place] = {}
        #: claims whose desks are being furnished
        self.opening: dict[str, Claimed] = {}
        #: fences of claims that were stopped before they came to a desk
        self.stopped: set[int] = set()
        #: the fence of the latest claim that was heard of
        self.newest = 0
        #: nothing begins any more
        self.stopping = False
        #: set when the last run has ended
        self.quiet = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def settings(self) -> Settings:
        """Those that count now."""
        return self._in_force.settings

    @property
    def rules(self) -> Rules:
        """The rules that count now; made anew only when the settings were changed."""
        if self._rules[0] is not self.settings:
            self._rules = self.settings, rules(self.settings)
        return self._rules[1]

    def caps(self) -> Caps:
        """How many runs each provider may have now."""
        asking: dict[str, int] = {}
        for place in self.places.values():
            if place.claimed is not None and place.taker.waits:
                asking[place.claimed.provider] = asking.get(place.claimed.provider, 0) + 1
        dispatch = self.settings.dispatch
        return Caps(each=dispatch.provider_desks, own=dispatch.provider_limits, asking=asking)

    @property
    def running(self) -> int:
        return len(self.opening) + sum(place.claimed is not None for place in self.places.values())

    @property
    def asking(self) -> int:
        """Runs that wait for a person: they take nobody's desk."""
        return sum(place.claimed is not None and bool(place.taker.waits) for place in self.places.values())

    def opened(self, claimed: Claimed) -> None:
        """Its desk is furnished, or cannot be."""
        if self.opening.get(claimed.session) is claimed:
            del self.opening[claimed.session]
        if not self.running:
            self.quiet.set()

    def free(self, place: Place) -> None:
        """Its run is over."""
        place.free(self.clock.monotonic())
        if not self.running:
            self.quiet.set()

    async def note(self, kind: str, seat: Seat, **data: Any) -> None:
        """Write an event about whoever sits there."""
        await until_stored(
            lambda: self.store.note(kind, session=seat.session, agent=seat.agent, **data),
            give_up=lambda: self.stopping,
        )

    async def run_died(self, claimed: Claimed, failure: Failure) -> None:
        """The run has ended without answers."""
        await until_stored(
            lambda: self.store.run_died(claimed.session, claimed.fence, failure, self.rules),
            give_up=lambda: self.stopping,
        )

    async def run_released(self, claimed: Claimed, reason: str) -> None:
        """The run has ended through no fault of its messages: no attempt counts."""
        await until_stored(
            lambda: self.store.run_released(claimed.session, claimed.fence, reason),
            give_up=lambda: self.stopping,
        )

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside everything else; what it raises is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def leave(self) -> None:
        """Cancel what is still under way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Dispatch failed", exc_info=error, extra={"action": "dispatch_failed"})
