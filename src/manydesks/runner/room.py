"""Room on the disk, as the desk sees it: what does not fit into the mailbox waits, so nothing is paid for twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from manydesks.domain.errors import MailboxFull

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN_SECONDS = 1.0


async def when_there_is_room(write: Callable[[], Awaitable[T]]) -> T:
    """The result of something that writes the mailbox, tried again while the disk is full. Whoever cannot wait so long
    ends the runner: the host's limits on silence and on a run's length hold here too."""
    while True:
        try:
            return await write()
        except MailboxFull as full:
            log.warning("%s Trying again in %g s.", full, AGAIN_SECONDS, extra={"action": "mailbox_full"})
            await asyncio.sleep(AGAIN_SECONDS)
