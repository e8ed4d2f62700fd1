"""What every channel promises, and what it is given.

A channel is one file in this folder, or a module that an installed package announces in the group `manydesks.channels`,
with a `CHANNEL`: its descriptor. The descriptor says what the platform can do; the office does the rest: it splits long
texts, keeps the order of a conversation, waits, tries again, remembers which pieces are out, and holds what cannot go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from manydesks.domain.attachment import MAX_FILE_BYTES, Attachment
from manydesks.domain.envelope import Accepted, Incoming, Parcel
from manydesks.domain.failure import Failure
from manydesks.domain.splitting import Unit
from manydesks.settings.model import Section

#: what to do with a response whose sending was cut off, so that nobody knows whether it arrived: ask the owner (it is
#: `unsure` until then), send it again, or leave it at that
CutOff = Literal["ask", "resend", "drop"]
Markup = Literal["plain", "markdown"]
#: how files go: not at all, each by itself after the text, or along with it
Files = Literal["none", "apart", "along"]


class DeliveryFailed(Exception):
    """The platform did not take it, for sure: nothing has arrived."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class ChannelDown(Exception):
    """The channel cannot work now: its sentence says why. It is tried again by and by."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The platform has it."""

    #: the platform's own id of what was sent
    id: str


class Channel(Protocol):
    """An adapter to one account of one platform.

    `send` is called again for the same piece after a failure, never at the same time for one conversation; pieces of
    one response come in order. Anything it raises but DeliveryFailed leaves it open whether the piece arrived.
    """

    async def start(self) -> None:
        """Come up: log in, connect, begin to hand in arrivals. Raise `ChannelDown` with a sentence if that fails."""

    async def stop(self) -> None:
        """Go down, after `start` or a `start` that failed: hand in nothing more, let go of everything."""

    async def send(self, parcel: Parcel) -> Receipt:
        """Deliver one piece: a text that fits, or one file. `parcel.key` is the same for every attempt at it."""


class Line(Protocol):
    """What a channel is given of the office; one for each account."""

    #: the name of the account in settings; empty: the channel's own section
    instance: str
    #: its settings, as the model of its descriptor made them
    section: ChannelSection

    async def hand_in(self, incoming: Incoming) -> Accepted:
        """Store an arrival; only then may the platform be told that it was taken.

        Raises `Duplicate` if it was stored before, which is as good, and `BadInput` for what is not taken: its sentence
        is for the sender. Anything else: it is not stored, and has to be handed in again.
        """

    def down(self, reason: str) -> None:
        """The connection is lost: the office stops the channel, starts it again by and by, and holds meanwhile what is
        for it."""

    def secret(self, name: str) -> str | None:
        """A secret of the owner's, by the name that the channel's settings give it."""

    def path(self, file: Attachment) -> Path:
        """Where the office keeps a file that goes with a parcel."""

    def show(self, line: str) -> None:
        """A line for whoever watches the office's terminal."""


class ChannelSection(Section):
    """`[channels.<name>]`: what every channel has; one with settings of its own brings a class below this."""

    enabled: bool = Field(default=True, description="`false`: it is not started, and what is for it is held.")
    cut_off: Literal["", "ask", "resend", "drop"] = Field(
        default="",
        description="What becomes of a response whose sending was cut off: `ask` you, `resend`, `drop`; empty: the "
        "channel's own rule.",
    )
    max_age_hours: float = Field(
        default=0, ge=0, le=87_600, description="Age at which a response expires; 0: as `delivery.max_age_hours` says."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Descriptor:
    """How a channel announces itself (`CHANNEL` of its file, or an entry point): importing it costs nothing."""

    #: as in the channel column, and in settings
    name: str
    #: imports what the channel needs and makes one
    load: Callable[[Line], Channel]
    #: what may stand in its section of the settings
    section: type[ChannelSection] = ChannelSection
    #: True: it is there without any settings
    by_itself: bool = False
    #: True: it may have several accounts, each `[channels.<name>.instances.<account>]`
    instances: bool = False
    #: True: nothing is sent; clients fetch what waits, and acknowledge it
    fetched: bool = False
    #: the longest text that it takes at once, in `unit`s; None: as long as it gets
    longest: int | None = None
    unit: Unit = "characters"
    #: what the platform makes of a text: with `markdown` fences and links stay whole when it is split
    markup: Markup = "markdown"
    #: whether it takes files, how, and how large
    files: Files = "none"
    file_bytes: int = MAX_FILE_BYTES
    #: whether a long answer also comes as a file (`delivery.file_over`); only if it takes files
    long_as_file: bool = False
    #: what else it can do; where it cannot, the office says the same in words
    edits: bool = False
    reactions: bool = False
    cards: bool = False
    #: questions with options to press
    buttons: bool = False
    #: True: the platform recognises `Parcel.key`, so a piece that is sent again arrives once
    keys: bool = False
    #: if neither the settings say it nor `keys`
    cut_off: CutOff = "ask"
    #: one line for people
    summary: str = ""
    #: names of secrets that it reads, each with a line for people
    secrets: dict[str, str] = field(default_factory=dict)

    def rule(self, section: ChannelSection) -> CutOff:
        """What becomes of a sending that was cut off."""
        return section.cut_off or ("resend" if self.keys else self.cut_off)
