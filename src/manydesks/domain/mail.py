"""What crosses the mailbox between host and desk, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Content = Mapping[str, Any]
AckStatus = Literal["completed", "failed", "cancelled"]
Failure = Literal["transient", "permanent", "refused"]

KINDS = ("chat", "task", "webhook", "system")
STEP_TYPES = ("text", "tool_call", "tool_result", "usage", "error")
ACK_STATUSES = ("completed", "failed", "cancelled")
FAILURES = ("transient", "permanent", "refused")


@dataclass(frozen=True, kw_only=True, slots=True)
class Inbound:
    """One message on its way to the desk."""

    #: the public id of the message
    id: str
    #: the run that it is part of
    run: str
    #: the fence of the claim; output under another fence is discarded by the host
    fence: int
    #: chat, task, webhook or system; decides the shape of `content`
    kind: str
    #: when it was stored, milliseconds UTC
    at: int
    #: the number of this attempt, from 1
    tries: int
    #: what the agent may see; never routing
    content: Content
    #: False: context only, it asks for no answer
    trigger: bool = True
    #: the public id of the message that it replies to
    reply_to: str | None = None
    #: not before this moment, milliseconds UTC
    not_before: int | None = None
    #: the even number that agents use for it; given by the host's side
    seq: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outbound:
    """One row that the desk proposes to send."""

    id: str
    #: odd, given by the desk's side
    seq: int = 0
    run: str
    fence: int
    #: the message that it answers: the host takes the reply address from there, never from the desk
    in_reply_to: str | None
    at: int
    kind: str
    content: Content
    #: not before this moment, milliseconds UTC
    deliver_after: int | None = None
    #: the opaque name of a place that the host resolves
    destination: str | None = None
    #: what hooks of the host add to the response; never read from the desk's file
    metadata: Content | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ack:
    """What became of one message under one fence; at most one per message and fence."""

    message: str
    run: str
    fence: int
    status: AckStatus
    at: int
    #: odd, given by the desk's side
    seq: int = 0
    #: the class of a failure (column `class`); set exactly when `status` is failed
    failure: Failure | None = None
    reason: str | None = None
    #: seconds to wait, as the provider asked for
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One inner step of a run: text, tool_call, tool_result, usage or error."""

    #: odd, given by the desk's side
    seq: int = 0
    run: str
    at: int
    type: str
    data: Content


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """A word from the host to the runner: stop, reload, answer."""

    seq: int
    verb: str
    data: Content


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What became of an outbound row on its platform."""

    out_id: str
    receipt: str | None
    status: str
    at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The numbers that one write of the desk gave to its rows, in the order in which the rows were passed."""

    messages: tuple[int, ...] = ()
    acks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """What the desk wrote after a cursor, oldest first, each kind by itself; `seq` orders all three."""

    #: the life of outbound.db that these rows belong to
    epoch: str
    #: the new cursor: everything up to here is in this page or an earlier one
    last_seq: int
    messages: tuple[Outbound, ...] = ()
    acks: tuple[Ack, ...] = ()
    steps: tuple[Step, ...] = ()
    #: all of the desk's proposals (`continuation`), as they stand now
    state: Mapping[str, str] = field(default_factory=dict)
    #: there is more after `last_seq`
    more: bool = False
    #: the file is an older copy of itself: same epoch, lower numbers, so the cursor says nothing about its rows
    restored: bool = False
