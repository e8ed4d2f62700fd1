"""Takes what one session's desk has written into the store, page by page, each row once."""

from __future__ import annotations

import asyncio

from manydesks.mailbox.host import HostMailbox
from manydesks.office.threads import MailboxThreads
from manydesks.store.outcome import Rules
from manydesks.store.store import Store


class Taker:
    """Remembers how far the file was read; the store's cursor is the truth, this only saves reading."""

    def __init__(self, store: Store, threads: MailboxThreads, mailbox: HostMailbox, session: str, rules: Rules) -> None:
        self._store = store
        self._threads = threads
        self._mailbox = mailbox
        self._session = session
        self._rules = rules
        self._epoch: str | None = None
        self._after = 0
        self._reading = asyncio.Lock()

    async def take(self) -> int:
        """The fence of the session's latest run that has ended, as far as this take knows; 0: none.

        Raises MailboxRefused for what no desk may write.
        """
        async with self._reading:
            if self._epoch is None and len(known := await self._store.cursors(self._session)) == 1:
                ((self._epoch, self._after),) = known.items()
            ended = 0
            while True:
                found = await self._threads.run(self._mailbox.collect, self._epoch, self._after)
                if found is None:
                    return ended
                if (found.epoch, found.last_seq) != (self._epoch, self._after):
                    ended = await self._store.take(self._session, found, self._rules)
                    self._epoch, self._after = found.epoch, found.last_seq
                if not found.more:
                    return ended
