"""How runs end: what the desk wrote is taken, and what it did not answer has failed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from manydesks.desk.furnish import office_mark
from manydesks.desk.repair import repair
from manydesks.domain.envelope import Claimed
from manydesks.domain.errors import BadInput, MailboxError, SandboxError
from manydesks.domain.failure import Failure, FailureClass
from manydesks.office.floor import Floor
from manydesks.office.patience import until_stored
from manydesks.office.place import Place
from manydesks.office.room import has_room

log = logging.getLogger(__name__)

#: why a run ends that a person has stopped
CANCELLED = "cancelled"


class Ending:
    """Whatever happens to a run, one of these ends it, once."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    async def take_all(self, session: str, place: Place) -> None:
        """Take what the desk wrote; a run that it has answered is over. Ends a desk that writes what it must not."""
        watch = place.watch
        try:
            ended = await self._take(place)
        except (MailboxError, SandboxError, BadInput, OSError) as error:
            # a desk that writes what it must not: its run fails, nobody else notices
            log.warning("A desk's output is refused: %s", error, extra={"action": "output_refused"})
            await place.desk.stop()
            try:
                await self._floor.threads.run(place.desk.mailbox.set_aside)
            except (MailboxError, OSError) as stuck:
                log.error("The refused output is still there: %s", stuck, extra={"action": "not_set_aside"})
            if place.claimed is not None:
                await self.died(place, place.claimed, transient(str(error)))
            return
        if place.claimed is not None and place.claimed.fence <= ended:
            self._floor.free(place)
        elif watch is not None and watch.circle is not None and place.watch is watch and place.claimed is not None:
            failure = Failure(kind=FailureClass.PERMANENT, reason=watch.circle)
            await self.interrupt(place, place.claimed, failure)

    async def _take(self, place: Place) -> int:
        """The fence of the session's latest run that has ended."""

        async def mend() -> None:
            # a run whose runner has left, or was told to end, is not begun again by the way
            goes_on = place.desk.seated and place.verdict is None
            await place.desk.stop()
            await repair(place.seat.folder, place.seat.workspace, office=office_mark(self._floor.home))
            if goes_on and place.claimed is not None:
                place.desk.nudge()

        place.taker.rules = self._floor.rules
        return await until_stored(
            lambda: place.taker.take_mended(mend, place.watch.seen if place.watch is not None else None),
            give_up=lambda: self._floor.stopping,
        )

    async def left(self, session: str, place: Place, trouble: Failure | None) -> None:
        """The runner has left: take its last words; what it did not answer has failed."""
        claimed = place.claimed
        await self.take_all(session, place)
        failure = place.verdict or trouble
        await self._floor.note("runner_stopped", place.seat, reason=failure.reason if failure else "idle")
        if claimed is not None and place.claimed is claimed:
            if failure is not None:
                await self._failed(place, claimed, failure)
            else:
                # it left for want of work just as work came: somebody else sits down
                place.desk.nudge()

    async def unwritten(self, place: Place, claimed: Claimed, error: Exception, *, counts: bool) -> None:
        """A desk that holds the lock, or a folder that is gone: its runner is ended, the run may pass next time. It
        `counts` as an attempt, unless it was the disk that had no room."""
        await place.desk.stop()
        reason = f"the mailbox could not be written: {error}"
        if counts:
            await self.died(place, claimed, transient(reason))
        else:
            await self._over(place, claimed, lambda: self._floor.run_released(claimed, reason))

    async def interrupt(self, place: Place, claimed: Claimed, failure: Failure) -> None:
        """The turn ends now, in good order: programs are told, transcripts closed. Who does not listen is killed."""
        if place.verdict is not None or place.watch is None:
            return
        place.verdict = failure
        place.watch.interrupted()
        await self._floor.note("runner_killed", place.seat, reason=failure.reason)
        try:
            await self._floor.threads.run(place.desk.mailbox.control, "stop", {"now": True})
        except (MailboxError, OSError):
            await self.kill(place, claimed, failure)
            return
        if place.claimed is claimed:
            place.desk.nudge()

    async def stop_run(self, place: Place, claimed: Claimed) -> None:
        """A person stops it, and the store knows. As `interrupt`; but one that does not listen yet would not hear it,
        and is ended at once."""
        failure = transient(CANCELLED)
        if place.handing:
            place.verdict = place.verdict or failure
        elif await self._floor.threads.run(place.listens):
            await self.interrupt(place, claimed, failure)
        elif place.claimed is claimed:
            await self.kill(place, claimed, failure)

    async def kill(self, place: Place, claimed: Claimed, failure: Failure) -> None:
        """The whole tree, at once; what it had written by then still counts."""
        told = place.verdict is not None
        await place.desk.stop()
        await self.take_all(claimed.session, place)
        if place.claimed is claimed:
            if not told:
                await self._floor.note("runner_killed", place.seat, reason=failure.reason)
            await self._failed(place, claimed, failure)

    async def _failed(self, place: Place, claimed: Claimed, failure: Failure) -> None:
        """Nobody sits there any more. It counts no attempt if the disk is full and no runner had begun with the run: it
        waited for room until its time was over, and the next one waits before it begins."""
        if await self._floor.threads.run(self._found_no_room, place):
            await self._over(place, claimed, lambda: self._floor.run_released(claimed, failure.reason))
        else:
            await self.died(place, claimed, failure)

    def _found_no_room(self, place: Place) -> bool:
        return not place.listens() and not has_room(self._floor.home.sessions)

    async def died(self, place: Place, claimed: Claimed, failure: Failure) -> None:
        """The run has failed as a whole; does nothing if it is over already."""
        await self._over(place, claimed, lambda: self._floor.run_died(claimed, failure))

    async def _over(self, place: Place, claimed: Claimed, end: Callable[[], Awaitable[None]]) -> None:
        if place.claimed is not claimed:
            return
        await end()
        await self.withdraw(place, claimed.fence)
        # the lane was free before we got here: another claim may be under way already
        if place.claimed is claimed:
            self._floor.free(place)

    async def withdraw(self, place: Place, fence: int) -> None:
        """Nobody shall work on what is not claimed any more."""
        try:
            await self._floor.threads.run(place.desk.mailbox.withdraw, fence)
        except (MailboxError, OSError) as error:
            # on a full disk nothing can be withdrawn, either: whoever writes there next does it first
            place.cleared = False
            log.warning("The inbox could not be cleared: %s", error, extra={"action": "withdraw_failed"})


def transient(reason: str) -> Failure:
    """It may pass next time."""
    return Failure(kind=FailureClass.TRANSIENT, reason=reason)
