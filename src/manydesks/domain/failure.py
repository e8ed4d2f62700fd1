"""What follows from a failed attempt: another one later, the end, or an answer that gives the reason."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from enum import StrEnum


class FailureClass(StrEnum):
    #: 429, 5xx, network, crash, stall: may pass by itself
    TRANSIENT = "transient"
    #: bad key, bad request, missing binary: the same again would fail the same
    PERMANENT = "permanent"
    #: the guard said no
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failed attempt."""

    kind: FailureClass
    #: a sentence for people, without secrets
    reason: str
    #: seconds that the other side asked for (`Retry-After`); below 0 and NaN count as none
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The ladder: `base_seconds`, doubled after each attempt."""

    #: the first wait
    base_seconds: float = 5.0
    #: attempts in all, the first one included
    max_attempts: int = 5
    #: each wait is longer by a random share of itself, up to this; never shorter
    jitter: float = 0.1
    #: the lane is blocked meanwhile, so the ladder stops growing here, and nobody who asks for more is waited for
    longest_seconds: float = 86_400.0


@dataclass(frozen=True, kw_only=True)
class RetryAt:
    """Try again."""

    #: counted from now
    delay_ms: int


@dataclass(frozen=True, kw_only=True)
class Dead:
    """No further attempt by itself; the sender is told."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The sender is answered with the reason; nothing failed that a retry could mend."""

    reason: str


def next_step(failure: Failure, attempts_made: int, policy: RetryPolicy, rng: random.Random) -> RetryAt | Dead | Answer:
    """What to do after attempt number `attempts_made` (1 is the first) failed. Never earlier than `retry_after`."""
    if failure.kind is FailureClass.REFUSED:
        return Answer(reason=failure.reason)
    if failure.kind is FailureClass.PERMANENT:
        return Dead(reason=failure.reason)
    if attempts_made >= policy.max_attempts:
        return Dead(reason=f"{failure.reason} (attempt {attempts_made} of {policy.max_attempts})")
    asked = failure.retry_after or 0.0
    if asked > policy.longest_seconds:
        return Dead(
            reason=f"{failure.reason} (asked to wait {asked:.0f} s; at most {policy.longest_seconds:.0f} s are waited)"
        )
    doubled = 2.0 ** min(max(attempts_made, 1) - 1, 60)  # 2.0 ** 1024 would overflow
    # the ladder comes first, so that a NaN loses
    wait = max(min(policy.base_seconds * doubled, policy.longest_seconds), asked)
    return RetryAt(delay_ms=math.ceil(wait * (1 + policy.jitter * rng.random()) * 1000))
