"""Dispatch: claimed messages go to their desks, what the desks write is taken, and every run comes to an end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from manydesks.desk.base import Bells, Desk, Seat
from manydesks.desk.inprocess import InProcessDesk
from manydesks.domain.clock import Clock
from manydesks.domain.envelope import Claimed, Work
from manydesks.domain.errors import BadInput, MailboxError, StoreError
from manydesks.domain.failure import Failure, FailureClass
from manydesks.domain.mail import Inbound
from manydesks.office.patience import until_stored
from manydesks.office.room import DiskRoom
from manydesks.office.rules import rules
from manydesks.office.taker import Taker
from manydesks.office.threads import MailboxThreads
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.store import Store

log = logging.getLogger(__name__)


@dataclass
class Place:
    """What the host knows of one session that has, or had, work."""

    seat: Seat
    desk: Desk
    #: brings what the desk writes into the store
    taker: Taker
    #: the claim under way
    claimed: Claimed | None = None
    #: ends the run when it takes too long
    limit: asyncio.TimerHandle | None = None
    #: the inbox holds nothing of the claims of earlier hosts
    cleared: bool = False


class Dispatcher:
    """One run at a time per session; sessions side by side."""

    def __init__(self, store: Store, home: Home, settings: Settings, clock: Clock, threads: MailboxThreads) -> None:
        self._store = store
        self._home = home
        self._settings = settings
        self._clock = clock
        self._rules = rules(settings)
        self._providers = Providers()
        self._places: dict[str, Place] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = threads
        self._disk = DiskRoom(home.sessions)
        self._stopping = False
        #: set when the last run has ended
        self._quiet = asyncio.Event()

    @property
    def running(self) -> int:
        return sum(place.claimed is not None for place in self._places.values())

    async def pump(self) -> None:
        """Begin every run that can begin now."""
        if not self._disk.enough():
            return
        while not self._stopping and (room := self._settings.dispatch.desks - self.running) > 0:
            begun = await self._store.claim(
                batch=self._settings.dispatch.batch, most=room, max_attempts=self._settings.retry.max_attempts
            )
            if not begun:
                return
            for claimed in begun:
                try:
                    place = await self._place(claimed)
                except BadInput as error:
                    # the agent names a provider that is no longer there
                    failure = Failure(kind=FailureClass.PERMANENT, reason=str(error))
                    await self._store_died(claimed, failure)
                    continue
                place.claimed = claimed
                self._spawn(self._begin(place, claimed))

    async def stop(self, seconds: float) -> None:
        """Begin nothing more; wait for the runs, then give back what is left of them, uncounted."""
        self._stopping = True
        if self.running:
            self._quiet.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), seconds)
        for session, place in self._places.items():
            await place.desk.stop()
            claimed = place.claimed
            if claimed is None:
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

    async def _place(self, claimed: Claimed) -> Place:
        """The session's place; furnished anew when the agent was changed since."""
        seat = Seat(
            session=claimed.session,
            agent=claimed.agent,
            agent_name=claimed.agent_name,
            provider=claimed.provider,
            model=claimed.model,
            folder=self._home.session(claimed.agent, claimed.session),
        )
        place = self._places.get(claimed.session)
        if place is not None and place.seat == seat:
            return place
        if place is not None:
            await place.desk.stop()
        desk = self._desk(seat)
        taker = Taker(self._store, self._threads, desk.mailbox, claimed.session, self._rules)
        fresh = self._places[claimed.session] = Place(seat=seat, desk=desk, taker=taker)
        return fresh

    def _desk(self, seat: Seat) -> Desk:
        return InProcessDesk(
            seat,
            Bells(started=self._on_started, output=self._on_output, ended=self._on_ended),
            providers=self._providers,
            clock=self._clock,
            idle_seconds=self._settings.runner.idle_seconds,
        )

    async def _begin(self, place: Place, claimed: Claimed) -> None:
        """The claim is committed: hand its messages to the desk."""
        mailbox = place.desk.mailbox
        try:
            await self._threads.run(mailbox.prepare)
            if not place.cleared:
                # an earlier host may have died after it released a claim and before it cleared the inbox
                await self._threads.run(mailbox.withdraw, claimed.fence - 1)
                place.cleared = True
            await self._threads.run(mailbox.put, [_inbound(claimed, work) for work in claimed.messages])
        except (MailboxError, BadInput, OSError) as error:
            await place.desk.stop()
            await self._died(claimed.session, place, claimed, f"the mailbox could not be written: {error}")
            return
        seconds = self._settings.runner.run_seconds
        if place.claimed is not claimed:
            return
        place.limit = asyncio.get_running_loop().call_later(seconds, self._on_limit, claimed)
        place.desk.nudge()

    def _on_started(self, session: str) -> None:
        self._spawn(self._note("runner_started", self._places[session].seat, sandbox="none"))

    def _on_output(self, session: str) -> None:
        self._spawn(self._take_all(session, self._places[session]))

    def _on_ended(self, session: str, trouble: str | None) -> None:
        self._spawn(self._ended(session, self._places[session], trouble))

    def _on_limit(self, claimed: Claimed) -> None:
        self._spawn(self._over_limit(self._places[claimed.session], claimed))

    async def _over_limit(self, place: Place, claimed: Claimed) -> None:
        if place.claimed is claimed:
            await place.desk.stop()
            await self._take_all(claimed.session, place)
            reason = f"the run did not end within {self._settings.runner.run_seconds:g} s"
            await self._note("runner_killed", place.seat, reason=reason)
            await self._died(claimed.session, place, claimed, reason)

    async def _ended(self, session: str, place: Place, trouble: str | None) -> None:
        """The runner has left: take its last words; what it did not answer has failed."""
        claimed = place.claimed
        await self._take_all(session, place)
        await self._note("runner_stopped", place.seat, reason=trouble or "idle")
        if claimed is not None and place.claimed is claimed:
            if trouble is None:
                # it left for want of work just as work came: somebody else sits down
                place.desk.nudge()
            else:
                await self._died(session, place, claimed, trouble)

    async def _died(self, session: str, place: Place, claimed: Claimed, reason: str) -> None:
        if place.claimed is not claimed:
            return
        await self._store_died(claimed, Failure(kind=FailureClass.TRANSIENT, reason=reason))
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
        try:
            ended = await until_stored(place.taker.take, give_up=lambda: self._stopping)
        except MailboxError as error:
            # a desk that writes what it must not: its run fails, nobody else notices
            log.warning("A desk's output is refused: %s", error, extra={"action": "output_refused"})
            await place.desk.stop()
            with contextlib.suppress(MailboxError, OSError):
                await self._threads.run(place.desk.mailbox.set_aside)
            if place.claimed is not None:
                await self._died(session, place, place.claimed, str(error))
            return
        if place.claimed is not None and place.claimed.fence <= ended:
            self._free(place)

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
        place.claimed = None
        if place.limit is not None:
            place.limit.cancel()
            place.limit = None
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


def _inbound(claimed: Claimed, work: Work) -> Inbound:
    """What the agent may see of a message: content, never routing."""
    return Inbound(
        id=work.message_id,
        run=claimed.run,
        fence=claimed.fence,
        kind=work.kind,
        at=work.created_at,
        tries=work.attempt,
        content={
            "sender": work.from_agent or work.sender,
            "senderId": work.sender_id,
            "text": work.text,
            "isFromMe": False,
        },
    )
