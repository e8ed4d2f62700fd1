"""Settings, as the decisions of the domain and the store want them."""

from __future__ import annotations

import random

from manydesks.domain.failure import RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.office.budget import prices_of
from manydesks.settings.model import Settings
from manydesks.store.outcome import Rules


def rules(settings: Settings) -> Rules:
    return Rules(
        retry=retry_policy(settings),
        limits=Limits(
            hops=settings.limits.hops,
            per_trace=settings.limits.trace_messages,
            per_pair_minute=settings.limits.pair_per_minute,
        ),
        rng=random.Random(),
        run_messages=settings.limits.run_messages,
        deliveries=settings.delivery.max_attempts,
        wait_ms=settings.limits.wait_seconds * 1000,
        prices=prices_of(settings),
    )


def retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        base_seconds=settings.retry.base_seconds,
        max_attempts=settings.retry.max_attempts,
        jitter=settings.retry.jitter,
    )
