"""Dispatch: claimed messages go to their desks, what the desks write is taken, and every run comes to an end.

Here runs begin and the office closes. `floor.py` is what the parts share, `handover.py` writes to desks, `judge.py`
looks at runs and at runners without one, `ending.py` takes what desks wrote and ends runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from manydesks.desk.base import Bells
from manydesks.desk.furnish import Furnisher
from manydesks.domain.clock import Clock
from manydesks.domain.envelope import Claimed
from manydesks.domain.errors import BadInput, HomeError, MailboxError, SandboxError, SettingsError, StoreError
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.stuck import Patience
from manydesks.office.ending import CANCELLED, Ending, transient
from manydesks.office.floor import Floor
from manydesks.office.handover import Handover
from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.office.judge import Judge
from manydesks.office.place import Place, seat_of, terms_of
from manydesks.office.room import DiskRoom
from manydesks.office.surface import Live
from manydesks.office.taker import Taker
from manydesks.office.threads import MailboxThreads
from manydesks.office.watch import Watch
from manydesks.settings.home import Home
from manydesks.settings.model import RunnerSettings
from manydesks.store.store import Store

log = logging.getLogger(__name__)


class Dispatcher:
    """One run at a time per session; sessions side by side."""

    def __init__(
        self,
        store: Store,
        home: Home,
        in_force: InForce,
        clock: Clock,
        threads: MailboxThreads,
        furnisher: Furnisher,
        hooks: Hooks | None = None,
    ) -> None:
        self._floor = floor = Floor(store, home, in_force, clock, threads)
        self._ending = Ending(floor)
        self._judge = Judge(floor, self._ending)
        self._handover = Handover(floor, self._ending, self._judge)
        self._furnisher = furnisher
        self._hooks = hooks
        self._bells = Bells(
            started=self._on_started, output=self._on_output, ended=self._on_ended, progress=self._on_progress
        )
        self._disk = DiskRoom(home.sessions)
        #: told what runs are saying; None: nobody listens
        self.on_live: Callable[[Live], None] | None = None

    async def pump(self) -> None:
        """Begin every run that can begin now, and hand more to those that take it."""
        self._judge.watch()
        if not self._disk.enough():
            return
        await self._handover.push()
        await self._handover.tell()
        floor = self._floor
        while not floor.stopping and (room := floor.settings.dispatch.desks - floor.running + floor.asking) > 0:
            settings = floor.settings
            begun = await floor.store.claim(
                batch=settings.dispatch.batch,
                most=room,
                max_attempts=settings.retry.max_attempts,
                caps=floor.caps(),
            )
            if not begun:
                return
            for claimed in begun:
                floor.newest = max(floor.newest, claimed.fence)
                floor.opening[claimed.session] = claimed
                floor.spawn(self._open(claimed))

    def stop_runs(self, runs: Sequence[tuple[str, int]]) -> None:
        """A person has stopped these, each a session and a fence, and the store knows. They end by and by."""
        floor = self._floor
        for session, fence in runs:
            place, opening = floor.places.get(session), floor.opening.get(session)
            if place is not None and place.claimed is not None and place.claimed.fence == fence:
                floor.spawn(self._ending.stop_run(place, place.claimed))
            elif fence > floor.newest or (opening is not None and opening.fence == fence):
                # on its way to its desk, or the claim itself on its way to us
                floor.stopped.add(fence)

    async def dismiss(self, sessions: Sequence[str]) -> None:
        """End the runners that sit at these sessions' desks without work; the next work seats new ones."""
        floor = self._floor
        for session in sessions:
            place = floor.places.get(session)
            if place is not None and place.claimed is None and session not in floor.opening:
                await place.desk.stop()

    def desks(self) -> dict[str, int]:
        """How many runs there are, runners at their desks without one, and sessions that are kept in mind."""
        places = self._floor.places.values()
        warm = sum(place.claimed is None and place.desk.seated for place in places)
        return {"running": self._floor.running, "warm": warm, "known": len(places)}

    async def stop(self, seconds: float, hurry: asyncio.Event | None = None) -> None:
        """Begin nothing more; wait for the runs, then give back what is left of them, uncounted. `hurry` ends the
        waiting."""
        floor = self._floor
        floor.stopping = True
        if floor.running:
            floor.quiet.clear()
            waits = [asyncio.create_task(event.wait()) for event in (floor.quiet, hurry) if event is not None]
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for waiting_for in waits:
                waiting_for.cancel()
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
        if await self._was_stopped(claimed):
            return
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
        if await self._was_stopped(claimed):
            return
        settings, clock = self._floor.settings, self._floor.clock
        watch = Watch(claimed.run, _patience(settings.runner), clock, same_calls=settings.limits.same_calls)
        place.begin(claimed, watch)
        self._floor.opened(claimed)
        await self._handover.begin(place, claimed)

    async def _was_stopped(self, claimed: Claimed) -> bool:
        """Whether somebody has stopped it on its way; then it is over."""
        if claimed.fence not in self._floor.stopped:
            return False
        self._floor.stopped.discard(claimed.fence)
        await self._floor.run_died(claimed, transient(CANCELLED))
        self._floor.opened(claimed)
        return True

    async def _place(self, claimed: Claimed) -> Place:
        """The session's place; furnished anew when the agent or what furnishes desks was changed since."""
        floor = self._floor
        seat, terms = seat_of(claimed, floor.home), terms_of(floor.settings)
        place = floor.places.get(claimed.session)
        if place is not None and (place.seat, place.terms) == (seat, terms):
            return place
        if place is not None:
            await place.desk.stop()
            floor.places.pop(claimed.session, None)
        desk = await self._furnisher.desk(seat, self._bells)
        files, hooks = floor.home.files, self._hooks
        taker = Taker(floor.store, floor.threads, desk.mailbox, claimed.session, floor.rules, files=files, hooks=hooks)
        fresh = floor.places[claimed.session] = Place(seat=seat, desk=desk, taker=taker, terms=terms)
        return fresh

    def words(self, trace: str) -> dict[str, str]:
        """What agents are saying just now about something of this trace, by agent: the end of it."""
        return {
            place.seat.agent: place.words
            for place in self._floor.places.values()
            if place.words and place.claimed is not None and any(work.trace == trace for work in place.claimed.messages)
        }

    def at_work(self) -> frozenset[str]:
        """The sessions whose runners sit at their desks with a run."""
        places = self._floor.places.items()
        return frozenset(session for session, place in places if place.claimed is not None and place.desk.seated)

    def _on_started(self, session: str) -> None:
        if (place := self._floor.places.get(session)) is not None:
            self._floor.spawn(self._floor.note("runner_started", place.seat, sandbox=place.desk.sandbox))

    def _on_output(self, session: str) -> None:
        place = self._floor.places.get(session)
        # a desk may ring as often as it likes: one look is under way, and one may wait
        if place is not None and not place.belled:
            place.belled = True
            self._floor.spawn(self._belled(session, place))

    async def _belled(self, session: str, place: Place) -> None:
        place.belled = False
        await self._ending.take_all(session, place)
        await self._handover.look_up(place)

    def _on_progress(self, session: str, text: str) -> None:
        place = self._floor.places.get(session)
        if place is not None and place.watch is not None:
            place.watch.stirred()
            place.hear(text)
            if self.on_live is not None and (claimed := place.claimed) is not None:
                first = claimed.messages[0]
                self.on_live(
                    Live(
                        agent=claimed.agent,
                        session=session,
                        run=claimed.run,
                        message=first.message_id,
                        trace=first.trace,
                        text=place.words,
                    )
                )

    def _on_ended(self, session: str, trouble: Failure | None) -> None:
        if (place := self._floor.places.get(session)) is not None:
            self._floor.spawn(self._ending.left(session, place, trouble))


def _patience(runner: RunnerSettings) -> Patience:
    return Patience(
        run_ms=runner.run_seconds * 1000,
        silence_ms=runner.silence_seconds * 1000,
        heartbeat_ms=runner.heartbeat_seconds * 1000,
    )
