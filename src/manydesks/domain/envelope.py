"""What comes in and what is handed out: the values that cross rooms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from manydesks.domain.attachment import Attachment

#: in a message's content: sentences of the office to the agent that will work on it
NOTICES = "hostNotices"


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """One inbound event of a platform or client, before routing."""

    #: the door it came through; also the prefix of the ids made for it
    source: str
    #: known to the source and unique there: a repeated one is recognised
    key: str
    text: str
    channel: str
    #: a place on the channel
    platform_id: str
    #: which account of the channel
    instance: str = ""
    #: dm, group, room, agent, api, console
    conversation_kind: str = "console"
    thread: str = ""
    sender: str = "you"
    sender_id: str = ""
    #: an agent that gets the text as it is, unrouted
    to: str | None = None
    #: higher first, between lanes
    priority: int = 0
    #: what goes with it, each a copy that the office keeps already
    files: tuple[Attachment, ...] = ()
    #: whether the sender may give slash commands to providers
    commands: bool = False
    #: nobody begins with it before this moment, ms UTC; None: at once
    not_before: int | None = None
    #: what hooks have to say about it; goes to the desk with the message
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What became of an arrival."""

    message_id: str
    trace: str
    #: one per routed target, in order
    messages: tuple[Mapping[str, str], ...]
    #: sentences for the sender
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One message of a claim, as its run sees it."""

    row: int
    message_id: str
    trace: str
    hop: int
    kind: str
    #: attempts begun, this one included
    attempt: int
    text: str
    sender: str
    sender_id: str
    from_agent: str | None
    channel: str
    created_at: int
    #: of a chat what the desk gets besides text and sender, else all that it gets; None: text and sender say all
    content: Mapping[str, Any] | None = None
    #: what came with it
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """The right to work on some messages of a lane: the fence says whose right it is."""

    fence: int
    run: str
    session: str
    agent: str
    agent_name: str
    provider: str
    model: str | None
    sandbox: str | None
    #: the agent's own options for its provider
    options: Mapping[str, Any]
    #: what the last accepted turn of the session left
    continuation: str | None
    messages: tuple[Work, ...]


def line_of(channel: str, instance: str) -> str:
    """One word for a channel and the account on it: what responses wait for, and what comes up and goes down."""
    return f"{channel}/{instance}" if instance else channel


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How much of a response is out already."""

    #: characters of its text
    chars: int = 0
    #: files that go with it
    files: int = 0

    def as_json(self) -> dict[str, int]:
        return {"chars": self.chars, "files": self.files}


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """One response, claimed for delivery; what a channel is given to send is one piece of it."""

    id: int
    fence: int
    message_id: str | None
    #: which response to that message; with its id an idempotency key for platforms that take one
    part: int
    attempt: int
    channel: str
    instance: str
    platform_id: str
    thread: str
    sender: str
    agent: str | None
    operation: str
    text: str
    created_at: int
    #: what goes with it, each a copy that the office keeps
    files: tuple[Attachment, ...] = ()
    #: of a card its `card`, of a question its `question` (id, title, question, options)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: the platform's id of what an edit or a reaction is about; None: the platform has none
    target: str | None = None
    #: the channel's, for the pieces that are out
    receipts: tuple[str, ...] = ()
    progress: Progress = Progress()

    @property
    def line(self) -> str:
        return line_of(self.channel, self.instance)

    @property
    def key(self) -> str:
        """The same for every attempt at this piece, for platforms that recognise what they have been sent before."""
        return f"manydesks-{self.id}-{len(self.receipts)}"
