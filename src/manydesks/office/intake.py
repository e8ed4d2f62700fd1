"""Intake: what comes in, from a channel, a client or a command, is shown to plugins, routed, and stored once."""

from __future__ import annotations

from manydesks.domain.envelope import Accepted, Incoming
from manydesks.office.acts.base import Means


class Intake:
    def __init__(self, means: Means) -> None:
        self._means = means

    async def hand_in(self, incoming: Incoming) -> Accepted:
        """Raises `BadInput` (and `Duplicate` below it), and then nothing has changed."""
        settings = self._means.in_force.settings
        if self._means.hooks is not None:
            incoming = await self._means.hooks.incoming(incoming)
        return await self._means.store.accept(
            incoming,
            default_agent=settings.office.default_agent,
            message_bytes=settings.limits.message_bytes,
            wait_ms=settings.limits.wait_seconds * 1000,
        )
