"""Takes what one session's desk has written into the store, page by page, each row once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from manydesks.domain.attachment import Taken
from manydesks.domain.errors import MailboxRefused
from manydesks.domain.insight import ACTION
from manydesks.domain.mail import Collected
from manydesks.mailbox.host import HostMailbox
from manydesks.office.files import clear, receive
from manydesks.office.hooks.roster import Hooks
from manydesks.office.threads import MailboxThreads
from manydesks.store.outcome import Rules
from manydesks.store.store import Store

#: a desk must not make the office remember without end
MAX_WAITS = 100


class Taker:
    """Remembers how far the file was read; the store's cursor is the truth, this only saves reading."""

    def __init__(
        self,
        store: Store,
        threads: MailboxThreads,
        mailbox: HostMailbox,
        session: str,
        rules: Rules,
        *,
        files: Path,
        hooks: Hooks | None = None,
    ) -> None:
        self._store = store
        self._threads = threads
        self._mailbox = mailbox
        self._session = session
        #: what counts now; the office may change it between two takes
        self.rules = rules
        self._epoch: str | None = None
        self._after = 0
        self._reading = asyncio.Lock()
        self._files = files
        self._hooks = hooks
        #: questions that a tool at the desk waits for, as the desk calls them
        self.waits: set[str] = set()
        #: figures of the past that it asked for, and has not got
        self.lookups: list[Mapping[str, Any]] = []

    async def take_mended(
        self, mend: Callable[[], Awaitable[None]], seen: Callable[[Collected], None] | None = None
    ) -> int:
        """As `take`; a file whose writer was killed in the middle of a write is mended first, and taken then."""
        try:
            return await self.take(seen)
        except MailboxRefused as refused:
            if not refused.details.get("hot"):
                raise
        await mend()
        return await self.take(seen)

    async def take(self, seen: Callable[[Collected], None] | None = None) -> int:
        """The fence of the session's latest run that has ended, as far as this take knows; 0: none.

        `seen` is told of each page after it was stored. Raises MailboxRefused for what no desk may write, also for a
        run that sends without end: what it had sent by then is taken, and the run has failed.
        """
        async with self._reading:
            if self._epoch is None and len(known := await self._store.cursors(self._session)) == 1:
                ((self._epoch, self._after),) = known.items()
            ended = 0
            while True:
                found, files = await self._threads.run(self._collect)
                if found is None:
                    return ended
                if (found.epoch, found.last_seq) != (self._epoch, self._after):
                    hooked = found
                    if self._hooks is not None:
                        hooked = await self._hooks.outgoing(self._session, self._mailbox.agent, found)
                    ended = await self._store.take(self._session, hooked, self.rules, files)
                    self._epoch, self._after = found.epoch, found.last_seq
                    if files:
                        await self._threads.run(clear, self._mailbox.folder, files)
                    if _goes_on(found, ended) and await self._store.was_flood(self._session, ended):
                        most, path = self.rules.run_messages, self._mailbox.folder / "out" / "outbound.db"
                        raise MailboxRefused(path=path, reason=f"it holds more than {most} messages of one run")
                    self._note_questions(found)
                    if seen is not None:
                        seen(found)
                if not found.more:
                    return ended

    def _collect(self) -> tuple[Collected | None, dict[str, Taken]]:
        """The next page, and what was taken of the files that it names: files first, so that a row never names one that
        is not there. Blocks."""
        found = self._mailbox.collect(self._epoch, self._after)
        if found is None or (found.epoch, found.last_seq) == (self._epoch, self._after):
            return found, {}
        return found, receive(self._mailbox.folder, found, self._files)

    def _note_questions(self, found: Collected) -> None:
        for row in found.messages:
            if row.content.get("operation") == "ask_question" and len(self.waits) < MAX_WAITS:
                self.waits.add(str(row.content.get("questionId")))
            elif row.kind == "system" and row.content.get("action") == ACTION:
                payload = row.content.get("payload")
                if isinstance(payload, dict) and len(self.lookups) < MAX_WAITS:
                    self.lookups.append(payload)
            elif row.content.get("action") in ("question_heard", "question_left"):
                payload = row.content.get("payload")
                self.waits.discard(str(payload.get("questionId")) if isinstance(payload, dict) else "")
        if found.acks:
            # a message that has ended waits for nothing; a run that goes on asks again
            self.waits.clear()


def _goes_on(found: Collected, ended: int) -> bool:
    """Whether the page has messages of the run that has ended, and its end is not in the page's acks."""
    last = max((ack.seq for ack in found.acks), default=0)
    return any(row.fence == ended and row.seq > last for row in found.messages)
