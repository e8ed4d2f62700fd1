"""Dispatch: claimed messages go to their desks, what the desks write is taken, and every run comes to an end.

Here runs begin and the office closes. `floor.py` is what the parts share, `handover.py` writes to desks, `judge.py`
looks at runs and at runners without one, `ending.py` takes what desks wrote and ends runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from manydesks.desk.base import Bells
from manydesks.desk.furnish import Furnisher
from manydesks.domain.clock import Clock
from manydesks.domain.envelope import Claimed
from manydesks.domain.errors import BadInput, HomeError, MailboxError, SandboxError, SettingsError, StoreError
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.stuck import Patience
from manydesks.office.ending import Ending, transient
from manydesks.office.floor import Floor
from manydesks.office.handover import Handover
from manydesks.office.judge import Judge
from manydesks.office.place import Place, seat_of
from manydesks.office.room import DiskRoom
from manydesks.office.taker import Taker
from manydesks.office.threads import MailboxThreads
from manydesks.office.watch import Watch
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.store import Store

log = logging.getLogger(__name__)


class Dispatcher:
    """One run at a time per session; sessions side by side."""

    def __init__(
        self,
        store: Store,
        home: Home,
        settings: Settings,
        clock: Clock,
        threads: MailboxThreads,
        furnisher: Furnisher,
    ) -> None:
        self._floor = floor = Floor(store, home, settings, clock, threads)
        self._ending = Ending(floor)
        self._judge = Judge(floor, self._ending)
        self._handover = Handover(floor, self._ending, self._judge)
        self._furnisher = furnisher
        self._bells = Bells(
            started=self._on_started, output=self._on_output, ended=self._on_ended, progress=self._on_progress
        )
        self._patience = Patience(
            run_ms=settings.runner.run_seconds * 1000,
            silence_ms=settings.runner.silence_seconds * 1000,
            heartbeat_ms=settings.runner.heartbeat_seconds * 1000,
        )
        self._disk = DiskRoom(home.sessions)

    async def pump(self) -> None:
        """Begin every run that can begin now, and hand more to those that take it."""
        self._judge.watch()
        if not self._disk.enough():
            return
        await self._handover.push()
        await self._handover.tell()
        floor, settings = self._floor, self._floor.settings
        while not floor.stopping and (room := settings.dispatch.desks - floor.running + floor.asking) > 0:
            begun = await floor.store.claim(
                batch=settings.dispatch.batch, most=room, max_attempts=settings.retry.max_attempts
            )
            if not begun:
                return
            for claimed in begun:
                floor.opening[claimed.session] = claimed
                floor.spawn(self._open(claimed))

    async def stop(self, seconds: float) -> None:
        """Begin nothing more; wait for the runs, then give back what is left of them, uncounted."""
        floor = self._floor
        floor.stopping = True
        if floor.running:
            floor.quiet.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(floor.quiet.wait(), seconds)
        stopped = await asyncio.gather(*(place.desk.stop() for place in floor.places.values()), return_exceptions=True)
        for error in stopped:
            if error is not None:
                log.error("A desk could not be ended: %s", error, extra={"action": "desk_not_ended"})
        for waiting in tuple(floor.opening.values()):
            with contextlib.suppress(StoreError):  # as below
                await floor.store.run_released(waiting.session, waiting.fence, "the office stopped")
        for session, place in tuple(floor.places.items()):
            if (claimed := place.claimed) is None:
                continue
            try:
                await self._ending.take_all(session, place)
                await floor.store.run_released(session, claimed.fence, "the office stopped")
            except StoreError as error:
                # it stays claimed, and the next start takes it up; that counts as an attempt
                log.error("A run could not be given back: %s", error, extra={"action": "release_failed"})
            else:
                # or the next runner would find it, and do it under a claim that is over
                await self._ending.withdraw(place, claimed.fence)
        await floor.leave()

    async def _open(self, claimed: Claimed) -> None:
        """A desk for the claim, furnished beside the others: one that takes long holds nobody up."""
        try:
            place = await self._place(claimed)
        except (BadInput, SettingsError, SandboxError) as error:
            # the agent cannot work as it is set up: a provider or a key that is not there, no sandbox
            await self._floor.run_died(claimed, Failure(kind=FailureClass.PERMANENT, reason=str(error)))
            self._floor.opened(claimed)
            return
        except (HomeError, MailboxError, OSError) as error:
            await self._floor.run_died(claimed, transient(str(error)))
            self._floor.opened(claimed)
            return
        limits = self._floor.settings.limits
        place.begin(claimed, Watch(claimed.run, self._patience, self._floor.clock, same_calls=limits.same_calls))
        self._floor.opened(claimed)
        await self._handover.begin(place, claimed)

    async def _place(self, claimed: Claimed) -> Place:
        """The session's place; furnished anew when the agent was changed since."""
        floor = self._floor
        seat = seat_of(claimed, floor.home)
        place = floor.places.get(claimed.session)
        if place is not None and place.seat == seat:
            return place
        if place is not None:
            await place.desk.stop()
            del floor.places[claimed.session]
        desk = await self._furnisher.desk(seat, self._bells)
        files = floor.home.files
        taker = Taker(floor.store, floor.threads, desk.mailbox, claimed.session, floor.rules, files=files)
        fresh = floor.places[claimed.session] = Place(seat=seat, desk=desk, taker=taker)
        return fresh

    def words(self, trace: str) -> dict[str, str]:
        """What agents are saying just now about something of this trace, by agent: the end of it."""
        return {
            place.seat.agent: place.words
            for place in self._floor.places.values()
            if place.words and place.claimed is not None and any(work.trace == trace for work in place.claimed.messages)
        }

    def _on_started(self, session: str) -> None:
        place = self._floor.places[session]
        self._floor.spawn(self._floor.note("runner_started", place.seat, sandbox=place.desk.sandbox))

    def _on_output(self, session: str) -> None:
        place = self._floor.places[session]
        # a desk may ring as often as it likes: one look is under way, and one may wait
        if not place.belled:
            place.belled = True
            self._floor.spawn(self._belled(session, place))

    async def _belled(self, session: str, place: Place) -> None:
        place.belled = False
        await self._ending.take_all(session, place)

    def _on_progress(self, session: str, text: str) -> None:
        place = self._floor.places[session]
        if place.watch is not None:
            place.watch.stirred()
            place.hear(text)

    def _on_ended(self, session: str, trouble: Failure | None) -> None:
        self._floor.spawn(self._ending.left(session, self._floor.places[session], trouble))
