"""Stops agents that answer each other for ever: caps on hops, on the messages of a trace, and on the pace of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: the hold reason of a message that was stopped here
HOLD_REASON = "loop_guard"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that is allowed."""

    #: hand-offs from the arrival to the message
    hops: int = 12
    #: messages that follow from one arrival, the first one included
    per_trace: int = 64
    #: messages between two agents in any 60 seconds, both directions together
    per_pair_minute: int = 20


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The envelope of a message that is about to be stored, and what was counted for it."""

    #: the agent that wrote it; None for a person, a schedule or the host: only the trace's cap binds them
    sender: str | None
    target: str
    #: 0 for an arrival's own messages, the asking message's hop + 1 for a hand-off
    hop: int
    #: messages of its trace that are stored already
    in_trace: int
    #: messages between the two agents, in either direction, stored in the last 60 seconds
    in_pair_minute: int = 0


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """The message may be queued."""


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The message is to be held."""

    #: the field of `Limits` that was reached
    limit: Literal["hops", "per_trace", "per_pair_minute"]
    #: a sentence for people
    reason: str


def check(facts: Facts, limits: Limits) -> Allowed | Stopped:
    """Whether one more message fits; the first cap that it would break is named."""
    if facts.sender is not None and facts.hop > limits.hops:
        return Stopped(
            limit="hops",
            reason=f"The message from @{facts.sender} to @{facts.target} would be hop {facts.hop} of its chain; "
            f"at most {limits.hops} are allowed.",
        )
    if facts.in_trace >= limits.per_trace:
        return Stopped(
            limit="per_trace",
            reason=f"{facts.in_trace} messages follow from the same arrival already; "
            f"at most {limits.per_trace} are allowed.",
        )
    if facts.sender is not None and facts.in_pair_minute >= limits.per_pair_minute:
        return Stopped(
            limit="per_pair_minute",
            reason=f"@{facts.sender} and @{facts.target} have exchanged {facts.in_pair_minute} messages "
            f"within a minute; at most {limits.per_pair_minute} are allowed.",
        )
    return Allowed()
