"""What the proxy asks of the office: keys, permission to spend, and an ear for what was spent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from manydesks.proxy.upstream import Upstream
from manydesks.proxy.usage import Usage

#: answered: to its end. desk_left, closed: cut by the desk, by the office. upstream_failed: never answered, or broke
#: off. refused: what the desk sent, or what came back, was not handed on
Outcome = Literal["answered", "desk_left", "closed", "upstream_failed", "refused"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request that went to an upstream, after its end. One that was refused before that is not a call."""

    session: str
    upstream: str
    path: str
    outcome: Outcome
    #: the upstream's; None if it never answered
    status: int | None
    #: None: nothing is known. After a cut, `final` is False and the truth may be larger
    usage: Usage | None
    #: of the bodies; what is left to go by when usage is not known
    sent_bytes: int
    received_bytes: int
    #: milliseconds UTC
    started_at: int
    duration_ms: int


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The office's side, called on its event loop."""

    #: the key of an upstream that wants one, looked up for each request: a changed secret counts at once. Must not
    #: block for long. Raises a ManyDesksError without secrets in it if there is none
    key_of: Callable[[Upstream], str]
    #: asked before each call that costs: a sentence why this session may not spend now, None if it may
    may_spend: Callable[[str], Awaitable[str | None]]
    #: told after each call, once
    called: Callable[[Call], None]
