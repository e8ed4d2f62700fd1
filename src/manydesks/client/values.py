"""What a client gets that is more than an answer's own JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that the office has stored."""

    message_id: str
    trace_id: str
    #: one for each agent that gets it: `messageId`, `agent`, `status`
    messages: tuple[Mapping[str, Any], ...] = ()
    #: sentences for whoever sent it; lost with an answer that was lost: they are not kept
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, or, without a `seq`, what a run is saying just now."""

    seq: int | None
    kind: str
    #: the whole of it, as `GET /api/events` has it
    data: Mapping[str, Any]
