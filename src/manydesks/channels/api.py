"""The API: clients that hand in messages, ask for what waits for them, and say when they have it.

Nothing is sent. A response stays `pending` until a client acknowledges it, and comes again, to whoever asks, until
then; so a client that dies before it has acknowledged loses nothing, and two clients that ask at once may both get it.
"""

from __future__ import annotations

from pydantic import Field

from manydesks.channels.base import ChannelSection, DeliveryFailed, Descriptor, Line, Receipt
from manydesks.domain.envelope import Parcel
from manydesks.domain.failure import Failure, FailureClass


class ApiSection(ChannelSection):
    """`[channels.api]`"""

    max_age_hours: float = Field(
        default=168,
        ge=0,
        le=87_600,
        description="Age at which a response that nobody acknowledged expires; 0: as `delivery.max_age_hours` says.",
    )
    commands: bool = Field(
        default=False, description="`true`: clients may give slash commands to providers, as the owner's console may."
    )


class Api:
    """There is nothing to start: clients come through the office's own door."""

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def send(self, parcel: Parcel) -> Receipt:
        raise DeliveryFailed(Failure(kind=FailureClass.PERMANENT, reason="clients of the API fetch their responses"))


def _load(line: Line) -> Api:
    return Api()


CHANNEL = Descriptor(
    name="api",
    load=_load,
    section=ApiSection,
    by_itself=True,
    fetched=True,
    files="along",
    long_as_file=True,
    edits=True,
    reactions=True,
    cards=True,
    buttons=True,
    summary="clients that fetch their responses and acknowledge them",
)
