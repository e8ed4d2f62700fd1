"""What goes to a desk: the messages of its claim, more for a run that takes them, answers to its questions.

A disk that becomes full meanwhile is waited out: that it does is no fault of the messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from manydesks.domain.envelope import Claimed, Work
from manydesks.domain.errors import BadInput, MailboxError
from manydesks.domain.insight import FILE
from manydesks.insights.published import Insights
from manydesks.mailbox.inbox import fill
from manydesks.office import history
from manydesks.office.ending import Ending
from manydesks.office.floor import Floor
from manydesks.office.judge import Judge
from manydesks.office.patience import AGAIN_SECONDS
from manydesks.office.place import Place, inbound
from manydesks.office.room import has_room, is_full

log = logging.getLogger(__name__)


class Handover:
    """Writes inboxes, each beside the others: one that cannot be written ends its own run, and no other."""

    def __init__(self, floor: Floor, ending: Ending, judge: Judge) -> None:
        self._floor = floor
        self._ending = ending
        self._judge = judge

    async def begin(self, place: Place, claimed: Claimed) -> None:
        """The claim is committed: hand its messages to the desk."""
        mailbox = place.desk.mailbox
        place.desk.continuation = claimed.continuation

        def hand_over() -> None:
            place.beat = mailbox.last_heartbeat()
            if not place.cleared:
                mailbox.prepare()
                # an earlier host may have died after it released a claim and before it cleared the inbox
                mailbox.withdraw(claimed.fence - 1)
            self._put(place, claimed.run, claimed.fence, claimed.messages)

        place.handing = True
        try:
            written = await self._write(place, claimed, hand_over)
        finally:
            if place.claimed is claimed:
                place.handing = False
        if not written:
            return
        place.cleared = True
        if place.claimed is not claimed:
            await self._ending.withdraw(place, claimed.fence)
            return
        if place.verdict is not None:
            # stopped before anybody could hear it
            await self._ending.kill(place, claimed, place.verdict)
            return
        if place.watch is not None:
            place.watch.handed()
        # a moment later, so that the look finds the time to be over
        seconds = self._floor.settings.runner.run_seconds + 0.02
        place.limit = asyncio.get_running_loop().call_later(seconds, self._judge.look, place)
        place.desk.nudge()

    async def push(self) -> None:
        """What has come for a run that takes more joins its claim, and goes to its desk."""
        floor = self._floor
        live = {
            place.seat.session: place
            for place in floor.places.values()
            if place.desk.takes_more and place.claimed is not None and place.cleared and place.verdict is None
        }
        if not live or floor.stopping:
            return
        claims = [(session, place.claimed.fence) for session, place in live.items() if place.claimed is not None]
        batch, attempts = floor.settings.dispatch.batch, floor.settings.retry.max_attempts
        joined = await floor.store.claim_more(claims, batch=batch, max_attempts=attempts)
        for session, (run, works) in joined.items():
            claimed = live[session].claimed
            if claimed is not None and claimed.run == run:
                floor.spawn(self._hand_more(live[session], claimed, works))

    async def _hand_more(self, place: Place, claimed: Claimed, works: Sequence[Work]) -> None:
        if not await self._write(place, claimed, lambda: self._put(place, claimed.run, claimed.fence, works)):
            return
        if place.claimed is not claimed:
            # it ended meanwhile: what it was handed after its end is nobody's work
            await self._ending.withdraw(place, claimed.fence)
            return
        place.desk.nudge()

    def _put(self, place: Place, run: str, fence: int, works: Sequence[Work]) -> None:
        """Messages go into the inbox after the files that they name. Blocks."""
        mailbox = place.desk.mailbox
        if any(work.files for work in works):
            mailbox.prepare()  # for the folder that they go to
        for work in works:
            fill(place.seat.folder, work.message_id, work.files, self._floor.home.path)
        mailbox.hand_over([inbound(run, fence, work) for work in works])

    async def tell(self) -> None:
        """Answers go to the tools that wait for them, past every lane."""
        for session, place in tuple(self._floor.places.items()):
            if place.claimed is None or not place.taker.waits:
                continue
            for answer in await self._floor.store.answers(session):
                # once is enough: a run that is tried again asks under another name
                if answer["questionId"] in place.taker.waits:
                    place.taker.waits.discard(answer["questionId"])
                    self._floor.spawn(self._say_answer(place, place.claimed, answer))

    async def look_up(self, place: Place) -> None:
        """Figures of the past go to the tool that asked for them; nobody else waits for the reading."""
        asked, place.taker.lookups = place.taker.lookups, []
        if not asked or place.claimed is None:
            return
        floor = self._floor
        folder = floor.settings.pipeline.lake_folder(floor.home.lake)
        insights, head = Insights(folder / FILE), await floor.store.head()
        for payload in asked:
            found = await floor.threads.run(history.answer, insights, payload, head)
            if (claimed := place.claimed) is not None:
                await self._say_answer(place, claimed, found)

    async def _say_answer(self, place: Place, claimed: Claimed, answer: dict[str, Any]) -> None:
        written = await self._write(place, claimed, lambda: place.desk.mailbox.control("answer", answer))
        if written and place.claimed is claimed:
            place.desk.nudge()

    async def _write(self, place: Place, claimed: Claimed, write: Callable[[], None]) -> bool:
        """Whether it is in the inbox. A full disk is waited out, for as long as the run is wanted; whatever else keeps
        the inbox from being written ends the run."""
        freed = False
        while True:
            try:
                await self._floor.threads.run(write)
                return True
            except (MailboxError, BadInput, OSError) as error:
                if place.claimed is not claimed:
                    return False
                room = await self._floor.threads.run(has_room, self._floor.home.sessions)
                # Refused, and yet there is room: it was freed just now. Twice in a row it is something else: a quota.
                no_fault = not room or (is_full(error) and not freed)
                if not no_fault or place.verdict is not None or self._floor.stopping:
                    await self._ending.unwritten(place, claimed, error, counts=not no_fault)
                    return False
                log.warning("%s Trying again in %g s.", error, AGAIN_SECONDS, extra={"action": "inbox_full"})
                freed = room
            await asyncio.sleep(AGAIN_SECONDS)
