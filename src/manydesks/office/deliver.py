"""Delivery: responses go out, each conversation in order, conversations side by side."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import replace

from manydesks.channels.base import Channel, DeliveryFailed
from manydesks.domain.envelope import Parcel
from manydesks.domain.failure import Failure, FailureClass, RetryAt, next_step
from manydesks.office.patience import until_stored
from manydesks.office.rules import retry_policy
from manydesks.settings.model import Settings
from manydesks.store.deliver import Delivery
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: sendings under way at once
SENDINGS = 64


class Deliverer:
    """Sends what is due. A response for a channel that is not there waits; it is never "delivered"."""

    def __init__(self, store: Store, channels: Mapping[str, Channel], settings: Settings) -> None:
        self._store = store
        self._channels = channels
        self._settings = settings
        self._policy = replace(retry_policy(settings), max_attempts=settings.delivery.max_attempts)
        self._rng = random.Random()
        self._sendings: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def pump(self) -> None:
        """Begin every sending that can begin now."""
        while (room := SENDINGS - len(self._sendings)) > 0:
            parcels = await self._store.claim_parcels(list(self._channels), most=room)
            if not parcels:
                return
            for parcel in parcels:
                task = asyncio.create_task(self._send(parcel))
                self._sendings.add(task)
                task.add_done_callback(self._done)

    async def drain(self, seconds: float) -> None:
        """Wait for the sendings that are under way; what is cut off is for the next start to settle."""
        self._stopping = True
        if self._sendings:
            await asyncio.wait(self._sendings, timeout=seconds)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._sendings.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A delivery could not be settled", exc_info=error, extra={"action": "delivery_failed"})

    async def _send(self, parcel: Parcel) -> None:
        channel = self._channels[parcel.channel]
        try:
            async with asyncio.timeout(self._settings.delivery.timeout_seconds):
                receipt = await channel.send(parcel)
            verdict = Delivery(receipt=receipt.id)
        except DeliveryFailed as refused:
            verdict = self._after(parcel, refused.failure)
        except Exception as error:
            log.warning("A delivery was cut off", exc_info=error, extra={"action": "delivery_cut_off"})
            verdict = self._cut_off(channel, parcel, f"{type(error).__name__}: {error}")
        await until_stored(lambda: self._store.settle(parcel, verdict), give_up=lambda: self._stopping)

    def _after(self, parcel: Parcel, failure: Failure) -> Delivery:
        step = next_step(failure, parcel.attempt, self._policy, self._rng)
        if isinstance(step, RetryAt):
            return Delivery(retry_in_ms=step.delay_ms, reason=failure.reason)
        return Delivery(dead=True, reason=failure.reason)

    def _cut_off(self, channel: Channel, parcel: Parcel, reason: str) -> Delivery:
        if channel.cut_off == "resend":
            return self._after(parcel, Failure(kind=FailureClass.TRANSIENT, reason=reason))
        return Delivery(unsure=True, reason=reason)
