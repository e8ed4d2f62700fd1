"""The hub: one tailer of the ledger for all who follow it, and the last events, rendered once for everybody.

A follower is a number, its cursor, and nothing else: what it has not been sent yet is in the ring, or, behind that, in
the store. Nothing is ever kept for one that does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from manydesks.api.chunks import Chunks
from manydesks.api.follower import Follower
from manydesks.api.history import check_history, history_of
from manydesks.api.progress import Progress
from manydesks.api.readers import Readers
from manydesks.api.rendering import PROGRESS, Rendered, rendered
from manydesks.domain.errors import LedgerPruned, ManyDesksError
from manydesks.office.surface import Live

log = logging.getLogger(__name__)

#: events that are kept rendered
RING = 10_000
#: events read from the store at once
PAGE = 500
#: sent at once to one follower
CHUNK_BYTES = 64 * 1024
#: and to one that is behind the ring
PAGE_BYTES = 256 * 1024
#: one that takes nothing of what it is sent for so long, and for which more than this waits, is cut; it resumes where
#: it was. Until then it costs what the kernel keeps for it, and one chunk
MOST_UNSENT = 1 << 20
STUCK_SECONDS = 5.0
#: a lost wake-up costs this
LOOK_SECONDS = 1.0
#: followers are woken together, and the more they are the less often: each wake-up of one costs a write
WAKE_SECONDS_EACH = 0.0002
WAKE_SECONDS = 0.05
#: how often it is looked whether logins have changed, by one for all who follow: those that count no more end what was
#: opened with them, within a second
DOOR_SECONDS = 0.5


class Hub:
    """One for each office."""

    def __init__(
        self,
        readers: Readers,
        *,
        door: Callable[[], object] = lambda: None,
        ring: int = RING,
        most_unsent: int = MOST_UNSENT,
    ) -> None:
        """`door`: what logins depend on, as it is now; if it has changed, everybody is looked at who was let in."""
        self._readers = readers
        self._door, self._seen = door, door()
        self._watch: asyncio.TimerHandle | None = None
        self._size = ring
        self._most_unsent = most_unsent
        self._ring: list[Rendered | None] = [None] * ring
        #: bytes of all events up to and with that of the slot, to know how much somebody lags
        self._offsets: list[int] = [0] * ring
        self._total = 0
        #: events in the ring: above `_base`, up to `head`
        self._base = self.head = 0
        self._awake = False
        self._waking = asyncio.Lock()
        self._bell = asyncio.Event()
        self._turn = asyncio.Event()
        self._woken = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._chunks = Chunks()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.followers: set[Follower] = set()
        self.closed = False
        self._progress = Progress(soon=self._wake_soon, now=self._wake)

    def start(self) -> None:
        self._task = asyncio.create_task(self._tail())

    async def wake(self) -> None:
        """From now on the ledger is read as it grows: the ring begins at its head, what was before is in the store.

        While nobody follows, and nobody waits for a message, nothing is read and nothing rendered.
        """
        async with self._waking:
            if not self._awake:
                self._base = self.head = await self._readers.read(lambda reader: reader.head())
                self._awake = True
                self._bell.set()

    async def stop(self) -> None:
        """Everybody who waits here comes back, and finds it closed."""
        self.closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._watch is not None:
            self._watch.cancel()
        self._wake()
        for waiting in self._waiting.values():
            for event in waiting:
                event.set()

    def news(self) -> None:
        """Something was committed."""
        if self._awake:
            self._bell.set()

    def live(self, live: Live) -> None:
        """A run says something: told to those who follow, and then forgotten."""
        if self.followers and not self.closed:
            self._progress.say(live)

    # whoever follows

    def chunk(self, follower: Follower) -> bytes | None:
        """The next bytes for it from the ring, and its cursor moved; None: it is behind the ring, so ask the store.

        Empty: there is nothing more now.
        """
        if follower.cursor >= self.head:
            return b""
        if follower.cursor < self._base:
            return None
        if not follower.wanted.all:
            return self._chosen(follower)
        known = self._chunks.get(follower.cursor)
        if known is None:
            known = self._joined(follower.cursor)
            self._chunks.put(follower.cursor, *known)
        data, follower.cursor = known
        return data

    async def page(self, follower: Follower) -> bytes:
        """The next bytes for one that is behind the ring. Raises `LedgerPruned` if they are no longer kept."""
        after, wanted = follower.cursor, follower.wanted

        def look(reader: Any) -> tuple[bytes, int]:
            head = reader.head()
            events = reader.events(after, PAGE, None, wanted.trace)
            upto = events[-1]["seq"] if len(events) == PAGE else max(head, after)
            chosen = [e for e in events if wanted.matches(e["kind"], e["agent"], e["trace"])]
            data, size = [], 0
            for event in chosen:
                piece = rendered(event).data
                data.append(piece)
                size += len(piece)
                if size >= PAGE_BYTES:
                    return b"".join(data), event["seq"]
            # what came between the two looks is above `head`, and so found by the next page, but for what was sent
            last = chosen[-1]["seq"] if chosen else after
            return b"".join(data), max(upto, last)

        data, follower.cursor = await self._readers.read_behind(look)
        return data

    def heard(self, follower: Follower) -> bytes:
        """What runs are saying, as far as it was not told yet."""
        if follower.heard == self._progress.stamp:
            return b""
        wanted = follower.wanted
        pieces = [
            said.data
            for said in self._progress.since(follower.heard)
            if wanted.matches(PROGRESS, said.live.agent, said.live.trace)
        ]
        follower.heard = self._progress.stamp
        return b"".join(pieces)

    async def join(self, follower: Follower) -> None:
        follower.heard = self._progress.stamp
        self.followers.add(follower)
        if self._watch is None:
            self._look_at_door()
        await self.wake()
        # it may have changed since it was let in
        follower.dismissed = not follower.admitted()

    def leave(self, follower: Follower) -> None:
        self.followers.discard(follower)
        if not self.followers:
            self._progress.forget()
        self._rest()
        self._forget_chunks()

    def _rest(self) -> None:
        if not self.followers and not self._waiting:
            self._awake = False
            self._chunks.clear()

    async def bounds(self) -> tuple[int, int, str]:
        """The ledger's last event, the first that is kept, and which history it tells."""
        return await self._readers.read(lambda reader: (reader.head(), reader.first(), history_of(reader)))

    async def check_history(self, followed: str, place: int) -> None:
        """Raises `LedgerPruned` if what was followed up to `place` is another history than this."""
        await self._readers.read_behind(lambda reader: check_history(reader, followed, place))

    @property
    def next_turn(self) -> asyncio.Event:
        """Set at the next news: taken before a look, so that nothing falls between the two."""
        return self._turn

    @property
    def waiting(self) -> int:
        """Those who wait for what becomes of a message."""
        return sum(len(events) for events in self._waiting.values())

    @contextlib.asynccontextmanager
    async def about(self, message: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the ledger tells of this message."""
        event = asyncio.Event()
        self._waiting.setdefault(message, set()).add(event)
        try:
            await self.wake()
            yield event
        finally:
            waiting = self._waiting[message]
            waiting.discard(event)
            if not waiting:
                del self._waiting[message]
            self._rest()

    # the tailer

    async def _tail(self) -> None:
        looked = 0.0
        while True:
            self._bell.clear()
            try:
                while self._awake and await self._look():
                    pass
            except ManyDesksError as error:
                # a full disk, a store that is being replaced: the next look may find it well
                log.error("The events cannot be read: %s", error, extra={"action": "api_tail_failed"})
                await asyncio.sleep(LOOK_SECONDS)
            if (now := asyncio.get_running_loop().time()) - looked > LOOK_SECONDS:
                looked = now
                self._cut_stuck()
                self._forget_chunks()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._bell.wait()

    async def _look(self) -> bool:
        """Take what is new; whether there may be more."""
        after = self.head
        try:
            events = await self._readers.read(lambda reader: [rendered_row(e) for e in reader.events(after, PAGE)])
        except LedgerPruned as pruned:
            # so far behind that it is gone: begin anew above it
            self._base = self.head = int(str(pruned.details["first"])) - 1
            return True
        if self.head != after:
            return True  # nobody was there for a moment, and somebody else has come: begun anew
        for event, row in events:
            self._add(event, row)
        if events:
            self._chunks.clear()
            self._wake_soon()
        return len(events) == PAGE

    def _add(self, event: Rendered, row: dict[str, Any]) -> None:
        slot = event.seq % self._size
        self._total += len(event.data)
        self._ring[slot], self._offsets[slot] = event, self._total
        self.head = event.seq
        self._base = max(self._base, self.head - self._size)
        if (waiting := self._waiting.get(row["message"] or "")) is not None:
            for bell in waiting:
                bell.set()
        self._progress.take(event.kind, row, followed=bool(self.followers))

    def _at(self, seq: int) -> Rendered:
        event = self._ring[seq % self._size]
        assert event is not None
        assert event.seq == seq
        return event

    def _joined(self, after: int) -> tuple[bytes, int]:
        """The events behind that one, up to the next of the places where all pieces end: whoever comes back, wherever
        it was, is soon sent the same pieces as the others."""
        data, at = [], after
        while at < self.head:
            at += 1
            event = self._at(at)
            data.append(event.data)
            end = self._offsets[at % self._size]
            if end // CHUNK_BYTES > (end - len(event.data)) // CHUNK_BYTES:
                break
        return b"".join(data), at

    def _forget_chunks(self) -> None:
        """Those that everybody has been sent who is there."""
        self._chunks.forget_below(min((follower.cursor for follower in self.followers), default=self.head))

    def _chosen(self, follower: Follower) -> bytes:
        wanted, data, at, size = follower.wanted, [], follower.cursor, 0
        while at < self.head and size < CHUNK_BYTES:
            at += 1
            event = self._at(at)
            if wanted.matches(event.kind, event.agent, event.trace):
                data.append(event.data)
                size += len(event.data)
        follower.cursor = at
        return b"".join(data)

    def _cut_stuck(self) -> None:
        now = asyncio.get_running_loop().time()
        for follower in tuple(self.followers):
            left = follower.unsent() if follower.sending else -1
            if left == -1 or left != follower.left:
                # a slow one takes some of it now and then
                follower.left, follower.since = left, now
            elif now - follower.since > STUCK_SECONDS and self._unsent(follower) > self._most_unsent:
                log.info("A reader of events that does not read is cut", extra={"action": "api_reader_cut"})
                follower.cut()

    def _unsent(self, follower: Follower) -> int:
        if follower.cursor < self._base:
            return self._most_unsent + 1
        if follower.cursor == self._base:
            first = self._base + 1
            return self._total - self._offsets[first % self._size] if first <= self.head else 0
        return self._total - self._offsets[follower.cursor % self._size]

    # the door

    def _look_at_door(self) -> None:
        """Now, and again as long as somebody follows."""
        self._watch = None
        if self.closed or not self.followers:
            return
        self._watch = asyncio.get_running_loop().call_later(DOOR_SECONDS, self._look_at_door)
        if (door := self._door()) != self._seen:
            self._seen = door
            self._dismiss()

    def _dismiss(self) -> None:
        gone = [follower for follower in self.followers if not follower.admitted()]
        for follower in gone:
            follower.dismissed = True
            if follower.sending:
                follower.cut()  # it may never take what it is being sent
        if gone:
            log.info("Readers of events whose login counts no more: %d", len(gone), extra={"action": "api_readers_out"})
            self._wake()

    # waking

    def _wake_soon(self) -> None:
        if self._due is not None:
            return
        loop = asyncio.get_running_loop()
        pause = min(WAKE_SECONDS, WAKE_SECONDS_EACH * len(self.followers))
        left = self._woken + pause - loop.time()
        if left <= 0:
            self._wake()
        else:
            self._due = loop.call_later(left, self._wake)

    def _wake(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._woken = asyncio.get_running_loop().time()
        self._progress.told()
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()


def rendered_row(row: dict[str, Any]) -> tuple[Rendered, dict[str, Any]]:
    return rendered(row), row
