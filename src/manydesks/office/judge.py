"""Looks at every run now and then, and has ended what hangs, goes round in circles or uses too much.

Runners without a run are looked at too: their processes hold memory, so only so many of them stay."""

from __future__ import annotations

from manydesks.domain.stuck import Interrupt, Kill
from manydesks.office.ending import Ending, transient
from manydesks.office.floor import Floor
from manydesks.office.place import Place, to_leave

#: how often every run is looked at, and what its processes use
WATCH_MS = 2_000
#: runners inside the host that stay warm without work: each looks into its mailbox now and then, and sits down again in
#: a moment
WARM_INSIDE = 64


class Judge:
    """Decides nothing itself: whether a run is stuck is `domain/stuck.py`, what it uses is known by its desk."""

    def __init__(self, floor: Floor, ending: Ending) -> None:
        self._floor = floor
        self._ending = ending
        self._watched = floor.clock.monotonic()

    def watch(self) -> None:
        """Look at every run now and then."""
        if self._floor.clock.monotonic() - self._watched >= WATCH_MS:
            now = self._watched = self._floor.clock.monotonic()
            places, most = self._floor.places, self._floor.settings.runner.warm
            for session, place in tuple(places.items()):
                if place.claimed is not None or place.desk.keeps_process:
                    self.look(place)
                elif session not in self._floor.opening and place.is_left(now):
                    # what is known of sessions without work must not grow with their number
                    del places[session]
            for place in to_leave(places.values(), most=most, now=now):
                self._floor.spawn(self._send_home(place, f"idle, and runner.warm is {most}"))
            for place in to_leave(places.values(), most=WARM_INSIDE, now=now, inside=True):
                self._floor.spawn(self._send_home(place, "idle"))

    def look(self, place: Place) -> None:
        """Beside everything else; somebody who looks already is enough."""
        if not place.judged and not self._floor.stopping:
            place.judged = True
            self._floor.spawn(self._judge(place))

    async def _judge(self, place: Place) -> None:
        """End what hangs, goes round in circles or uses too much."""
        try:
            claimed, watch = place.claimed, place.watch
            fault = await self._floor.threads.run(place.desk.fault)
            heartbeat = await self._floor.threads.run(place.desk.mailbox.last_heartbeat)
            if place.claimed is not claimed:
                return
            if claimed is None or watch is None:
                if fault is not None:
                    await place.desk.stop()
                    await self._floor.note("runner_killed", place.seat, reason=fault)
                return
            if fault is not None:
                await self._ending.kill(place, claimed, transient(fault))
                return
            if place.handing:
                # nobody has it yet, so nobody hangs: the disk may be full for longer than any run may be silent
                return
            match watch.verdict(heartbeat, asks=bool(place.taker.waits)):
                case Kill(reason=reason):
                    await self._ending.kill(place, claimed, place.verdict or transient(reason))
                case Interrupt(reason=reason):
                    await self._ending.interrupt(place, claimed, transient(reason))
        finally:
            place.judged = False

    async def _send_home(self, place: Place, reason: str) -> None:
        if place.claimed is not None:
            return
        # nothing is awaited since that look before the desk is empty: work that comes now finds nobody, and is nudged
        await place.desk.stop()
        await self._floor.note("runner_stopped", place.seat, reason=reason)
