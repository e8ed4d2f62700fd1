"""Messages that come while a turn is under way, handed to a provider that takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from manydesks.domain.mail import Inbound
from manydesks.runner.providers.base import Provider
from manydesks.runner.tools.registry import Toolbox

log = logging.getLogger(__name__)


class Pushing:
    """One turn's. What is handed over is not acknowledged by that: the provider's answer says what the model has read,
    and the rest is the next turn's."""

    def __init__(
        self, provider: Provider, batch: tuple[Inbound, ...], open_messages: dict[str, Inbound], toolbox: Toolbox
    ) -> None:
        self._push = getattr(provider, "push", None)
        self._claim = (batch[0].run, batch[0].fence)
        self._given = {message.id for message in batch}
        self._open = open_messages
        self._toolbox = toolbox
        self._task: asyncio.Task[None] | None = None

    @property
    def possible(self) -> bool:
        """Whether the provider takes any, and has taken the last ones."""
        return self._push is not None and (self._task is None or self._task.done())

    def offer(self, rows: Iterable[Inbound]) -> None:
        """What waits in the mailbox: those of the same claim that are new go to the provider, in order."""
        fresh = tuple(row for row in rows if (row.run, row.fence) == self._claim and row.id not in self._given)
        if fresh:
            self._given |= {row.id for row in fresh}
            self._open |= {row.id: row for row in fresh}
            self._toolbox.add(fresh)
            # beside the loop: a provider that takes its time must not stop the heartbeat
            self._task = asyncio.create_task(self._hand_over(fresh))

    async def end(self) -> None:
        """The turn is over."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _hand_over(self, fresh: tuple[Inbound, ...]) -> None:
        assert self._push is not None
        try:
            await self._push(fresh)
        except Exception:
            # nothing is lost: what was not taken is not acknowledged, and comes with the next turn
            log.exception("The provider did not take %d more messages", len(fresh))
