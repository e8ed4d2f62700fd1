"""What every channel promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from manydesks.domain.envelope import Parcel
from manydesks.domain.failure import Failure


class DeliveryFailed(Exception):
    """The platform did not take it, for sure: nothing has arrived."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The platform has it."""

    #: the platform's own id of what was sent
    id: str


class Channel(Protocol):
    """An adapter to one platform.

    `send` may be called again for the same parcel after a failure, never at the same time for one conversation.
    Anything it raises but DeliveryFailed leaves it open whether the parcel arrived.
    """

    #: as in the channel column, and in settings
    name: str
    #: what to do with a parcel whose sending was cut off: send it again, or ask the owner
    cut_off: Literal["resend", "ask"]

    async def send(self, parcel: Parcel) -> Receipt:
        """Deliver one response. DeliveryFailed: it did not arrive."""
