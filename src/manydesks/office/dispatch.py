"""Dispatch: claimed messages go to their desks, what the desks write is taken, and every run comes to an end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from manydesks.desk.base import Bells, Seat
from manydesks.desk.furnish import Furnisher, office_mark
from manydesks.desk.repair import repair
from manydesks.domain.clock import Clock
from manydesks.domain.envelope import Claimed
from manydesks.domain.errors import (
    BadInput,
    HomeError,
    MailboxError,
    SandboxError,
    SettingsError,
    StoreError,
)
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.mail import Inbound
from manydesks.domain.stuck import Interrupt, Kill, Patience
from manydesks.office.patience import until_stored
from manydesks.office.place import Place, inbound, seat_of
from manydesks.office.room import DiskRoom
from manydesks.office.rules import rules
from manydesks.office.taker import Taker
from manydesks.office.threads import MailboxThreads
from manydesks.office.watch import Watch
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: how often every run is looked at, and what its processes use
WATCH_MS = 2_000


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
        self._store = store
        self._home = home
        self._settings = settings
        self._clock = clock
        self._rules = rules(settings)
        self._furnisher = furnisher
        self._bells = Bells(
            started=self._on_started, output=self._on_output, ended=self._on_ended, progress=self._on_progress
        )
        self._patience = Patience(
            run_ms=settings.runner.run_seconds * 1000,
            silence_ms=settings.runner.silence_seconds * 1000,
            heartbeat_ms=settings.runner.heartbeat_seconds * 1000,
        )
        self._places: dict[str, Place] = {}
        #: claims whose desks are being furnished
        self._opening: dict[str, Claimed] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = threads
        self._disk = DiskRoom(home.sessions)
        self._watched = clock.monotonic()
        self._stopping = False
        #: set when the last run has ended
        self._quiet = asyncio.Event()

    @property
    def running(self) -> int:
        return len(self._opening) + sum(place.claimed is not None for place in self._places.values())

    @property
    def asking(self) -> int:
        """Runs that wait for a person: they take nobody's desk."""
        return sum(place.claimed is not None and bool(place.taker.waits) for place in self._places.values())

    async def pump(self) -> None:
        """Begin every run that can begin now, and hand more to those that take it."""
        self._watch()
        if not self._disk.enough():
            return
        await self._push()
        await self._tell()
        while not self._stopping and (room := self._settings.dispatch.desks - self.running + self.asking) > 0:
            begun = await self._store.claim(
                batch=self._settings.dispatch.batch, most=room, max_attempts=self._settings.retry.max_attempts
            )
            if not begun:
                return
            for claimed in begun:
                self._opening[claimed.session] = claimed
                self._spawn(self._open(claimed))

    async def stop(self, seconds: float) -> None:
        """Begin nothing more; wait for the runs, then give back what is left of them, uncounted."""
        self._stopping = True
        if self.running:
            self._quiet.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), seconds)
        stopped = await asyncio.gather(*(place.desk.stop() for place in self._places.values()), return_exceptions=True)
        for error in stopped:
            if error is not None:
                log.error("A desk could not be ended: %s", error, extra={"action": "desk_not_ended"})
        for waiting in tuple(self._opening.values()):
            with contextlib.suppress(StoreError):  # as below
                await self._store.run_released(waiting.session, waiting.fence, "the office stopped")
        for session, place in tuple(self._places.items()):
            if (claimed := place.claimed) is None:
                continue
            try:
                await self._take_all(session, place)
                await self._store.run_released(session, claimed.fence, "the office stopped")
            except StoreError as error:
                # it stays claimed, and the next start takes it up; that counts as an attempt
                log.error("A run could not be given back: %s", error, extra={"action": "release_failed"})
            else:
                # or the next runner would find it, and do it under a claim that is over
                await self._withdraw(place, claimed.fence)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, claimed: Claimed) -> None:
        """A desk for the claim, furnished beside the others: one that takes long holds nobody up."""
        try:
            place = await self._place(claimed)
        except (BadInput, SettingsError, SandboxError) as error:
            # the agent cannot work as it is set up: a provider or a key that is not there, no sandbox
            await self._store_died(claimed, Failure(kind=FailureClass.PERMANENT, reason=str(error)))
            self._opened(claimed)
            return
        except (HomeError, MailboxError, OSError) as error:
            await self._store_died(claimed, _transient(str(error)))
            self._opened(claimed)
            return
        place.claimed = claimed
        place.watch = Watch(claimed.run, self._patience, self._clock, same_calls=self._settings.limits.same_calls)
        self._opened(claimed)
        await self._begin(place, claimed)

    def _opened(self, claimed: Claimed) -> None:
        if self._opening.get(claimed.session) is claimed:
            del self._opening[claimed.session]
        if not self.running:
            self._quiet.set()

    async def _place(self, claimed: Claimed) -> Place:
        """The session's place; furnished anew when the agent was changed since."""
        seat = seat_of(claimed, self._home)
        place = self._places.get(claimed.session)
        if place is not None and place.seat == seat:
            return place
        if place is not None:
            await place.desk.stop()
            del self._places[claimed.session]
        desk = await self._furnisher.desk(seat, self._bells)
        taker = Taker(self._store, self._threads, desk.mailbox, claimed.session, self._rules, files=self._home.files)
        fresh = self._places[claimed.session] = Place(seat=seat, desk=desk, taker=taker)
        return fresh

    async def _begin(self, place: Place, claimed: Claimed) -> None:
        """The claim is committed: hand its messages to the desk."""
        mailbox = place.desk.mailbox
        place.desk.continuation = claimed.continuation

        def hand_over() -> None:
            mailbox.prepare()
            if not place.cleared:
                # an earlier host may have died after it released a claim and before it cleared the inbox
                mailbox.withdraw(claimed.fence - 1)
            mailbox.put([inbound(claimed.run, claimed.fence, work) for work in claimed.messages])

        try:
            await self._threads.run(hand_over)
        except (MailboxError, BadInput, OSError) as error:
            await self._unwritten(place, claimed, error)
            return
        place.cleared = True
        if place.claimed is not claimed:
            return
        # a moment later, so that the look finds the time to be over
        seconds = self._settings.runner.run_seconds + 0.02
        place.limit = asyncio.get_running_loop().call_later(seconds, self._look, place)
        place.desk.nudge()

    async def _push(self) -> None:
        """What has come for a run that takes more joins its claim, and goes to its desk."""
        live = {
            place.seat.session: place
            for place in self._places.values()
            if place.desk.takes_more and place.claimed is not None and place.cleared and place.verdict is None
        }
        if not live or self._stopping:
            return
        claims = [(session, place.claimed.fence) for session, place in live.items() if place.claimed is not None]
        joined = await self._store.claim_more(
            claims, batch=self._settings.dispatch.batch, max_attempts=self._settings.retry.max_attempts
        )
        for session, (run, works) in joined.items():
            claimed = live[session].claimed
            if claimed is not None and claimed.run == run:
                self._spawn(self._hand_more(live[session], claimed, [inbound(run, claimed.fence, w) for w in works]))

    async def _tell(self) -> None:
        """Answers go to the tools that wait for them, past every lane."""
        for session, place in tuple(self._places.items()):
            if place.claimed is None or not place.taker.waits:
                continue
            for answer in await self._store.answers(session):
                # once is enough: a run that is tried again asks under another name
                if answer["questionId"] in place.taker.waits:
                    place.taker.waits.discard(answer["questionId"])
                    self._spawn(self._say_answer(place, place.claimed, answer))

    async def _say_answer(self, place: Place, claimed: Claimed, answer: dict[str, Any]) -> None:
        try:
            await self._threads.run(place.desk.mailbox.control, "answer", answer)
        except (MailboxError, BadInput, OSError) as error:
            await self._unwritten(place, claimed, error)
            return
        if place.claimed is claimed:
            place.desk.nudge()

    async def _hand_more(self, place: Place, claimed: Claimed, rows: Sequence[Inbound]) -> None:
        try:
            await self._threads.run(place.desk.mailbox.put, rows)
        except (MailboxError, BadInput, OSError) as error:
            await self._unwritten(place, claimed, error)
            return
        place.desk.nudge()

    async def _unwritten(self, place: Place, claimed: Claimed, error: Exception) -> None:
        """A desk that holds the lock, or a folder that is gone: its runner is ended, the run may pass next time."""
        await place.desk.stop()
        reason = f"the mailbox could not be written: {error}"
        await self._died(claimed.session, place, claimed, Failure(kind=FailureClass.TRANSIENT, reason=reason))

    def _on_started(self, session: str) -> None:
        place = self._places[session]
        self._spawn(self._note("runner_started", place.seat, sandbox=place.desk.sandbox))

    def _on_output(self, session: str) -> None:
        place = self._places[session]
        # a desk may ring as often as it likes: one look is under way, and one may wait
        if not place.belled:
            place.belled = True
            self._spawn(self._belled(session, place))

    async def _belled(self, session: str, place: Place) -> None:
        place.belled = False
        await self._take_all(session, place)

    def _on_progress(self, session: str, text: str) -> None:
        watch = self._places[session].watch
        if watch is not None:
            watch.stirred()

    def _on_ended(self, session: str, trouble: Failure | None) -> None:
        self._spawn(self._ended(session, self._places[session], trouble))

    async def _ended(self, session: str, place: Place, trouble: Failure | None) -> None:
        """The runner has left: take its last words; what it did not answer has failed."""
        claimed = place.claimed
        await self._take_all(session, place)
        failure = place.verdict or trouble
        await self._note("runner_stopped", place.seat, reason=failure.reason if failure else "idle")
        if claimed is not None and place.claimed is claimed:
            if failure is not None:
                await self._died(session, place, claimed, failure)
            else:
                # it left for want of work just as work came: somebody else sits down
                place.desk.nudge()

    def _watch(self) -> None:
        """Look at every run now and then."""
        if self._clock.monotonic() - self._watched >= WATCH_MS:
            self._watched = self._clock.monotonic()
            for place in self._places.values():
                self._look(place)

    def _look(self, place: Place) -> None:
        if not place.judged and not self._stopping:
            place.judged = True
            self._spawn(self._judge(place))

    async def _judge(self, place: Place) -> None:
        """End what hangs, goes round in circles or uses too much."""
        try:
            claimed, watch = place.claimed, place.watch
            fault = await self._threads.run(place.desk.fault)
            heartbeat = await self._threads.run(place.desk.mailbox.last_heartbeat)
            if place.claimed is not claimed:
                return
            if claimed is None or watch is None:
                if fault is not None:
                    await place.desk.stop()
                    await self._note("runner_killed", place.seat, reason=fault)
                return
            if fault is not None:
                await self._kill(place, claimed, _transient(fault))
                return
            match watch.verdict(heartbeat, asks=bool(place.taker.waits)):
                case Kill(reason=reason):
                    await self._kill(place, claimed, place.verdict or _transient(reason))
                case Interrupt(reason=reason):
                    await self._interrupt(place, claimed, _transient(reason))
        finally:
            place.judged = False

    async def _interrupt(self, place: Place, claimed: Claimed, failure: Failure) -> None:
        """The turn ends now, in good order: programs are told, transcripts closed. Who does not listen is killed."""
        if place.verdict is not None or place.watch is None:
            return
        place.verdict = failure
        place.watch.interrupted()
        await self._note("runner_killed", place.seat, reason=failure.reason)
        try:
            await self._threads.run(place.desk.mailbox.control, "stop", {"now": True})
        except (MailboxError, OSError):
            await self._kill(place, claimed, failure)
            return
        if place.claimed is claimed:
            place.desk.nudge()

    async def _kill(self, place: Place, claimed: Claimed, failure: Failure) -> None:
        told = place.verdict is not None
        await place.desk.stop()
        await self._take_all(claimed.session, place)
        if place.claimed is claimed:
            if not told:
                await self._note("runner_killed", place.seat, reason=failure.reason)
            await self._died(claimed.session, place, claimed, failure)

    async def _died(self, session: str, place: Place, claimed: Claimed, failure: Failure) -> None:
        if place.claimed is not claimed:
            return
        await self._store_died(claimed, failure)
        await self._withdraw(place, claimed.fence)
        # the lane was free before we got here: another claim may be under way already
        if place.claimed is claimed:
            self._free(place)

    async def _withdraw(self, place: Place, fence: int) -> None:
        try:
            await self._threads.run(place.desk.mailbox.withdraw, fence)
        except (MailboxError, OSError) as error:
            log.warning("The inbox could not be cleared: %s", error, extra={"action": "withdraw_failed"})

    async def _take_all(self, session: str, place: Place) -> None:
        watch = place.watch
        try:
            ended = await self._take(place)
        except (MailboxError, SandboxError, BadInput, OSError) as error:
            # a desk that writes what it must not: its run fails, nobody else notices
            log.warning("A desk's output is refused: %s", error, extra={"action": "output_refused"})
            await place.desk.stop()
            with contextlib.suppress(MailboxError, OSError):
                await self._threads.run(place.desk.mailbox.set_aside)
            if place.claimed is not None:
                await self._died(session, place, place.claimed, _transient(str(error)))
            return
        if place.claimed is not None and place.claimed.fence <= ended:
            self._free(place)
        elif watch is not None and watch.circle is not None and place.watch is watch and place.claimed is not None:
            failure = Failure(kind=FailureClass.PERMANENT, reason=watch.circle)
            await self._interrupt(place, place.claimed, failure)

    async def _take(self, place: Place) -> int:
        """The fence of the session's latest run that has ended."""

        async def mend() -> None:
            await place.desk.stop()
            await repair(place.seat.folder, place.seat.workspace, office=office_mark(self._home))
            if place.claimed is not None:
                place.desk.nudge()

        return await until_stored(
            lambda: place.taker.take_mended(mend, place.watch.seen if place.watch is not None else None),
            give_up=lambda: self._stopping,
        )

    async def _note(self, kind: str, seat: Seat, **data: Any) -> None:
        await until_stored(
            lambda: self._store.note(kind, session=seat.session, agent=seat.agent, **data),
            give_up=lambda: self._stopping,
        )

    async def _store_died(self, claimed: Claimed, failure: Failure) -> None:
        await until_stored(
            lambda: self._store.run_died(claimed.session, claimed.fence, failure, self._rules),
            give_up=lambda: self._stopping,
        )

    def _free(self, place: Place) -> None:
        place.free()
        if not self.running:
            self._quiet.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Dispatch failed", exc_info=error, extra={"action": "dispatch_failed"})


def _transient(reason: str) -> Failure:
    return Failure(kind=FailureClass.TRANSIENT, reason=reason)
