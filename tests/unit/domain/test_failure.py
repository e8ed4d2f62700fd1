"""The ladder of retries, and what is never retried."""

from __future__ import annotations

import random
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.failure import Answer, Dead, Failure, FailureClass, RetryAt, RetryPolicy, next_step

BUSY = Failure(kind=FailureClass.TRANSIENT, reason="The provider is busy")
STEADY = RetryPolicy(jitter=0)


def test_the_ladder() -> None:
    steps = [next_step(BUSY, attempt, STEADY, random.Random(1)) for attempt in range(1, 6)]
    assert steps == [
        RetryAt(delay_ms=5_000),
        RetryAt(delay_ms=10_000),
        RetryAt(delay_ms=20_000),
        RetryAt(delay_ms=40_000),
        Dead(reason="The provider is busy (attempt 5 of 5)"),
    ]


def test_the_ladder_is_a_setting() -> None:
    policy = RetryPolicy(base_seconds=1, max_attempts=2, jitter=0)
    assert next_step(BUSY, 1, policy, random.Random(1)) == RetryAt(delay_ms=1_000)
    assert isinstance(next_step(BUSY, 2, policy, random.Random(1)), Dead)
    assert isinstance(next_step(BUSY, 1, RetryPolicy(max_attempts=1), random.Random(1)), Dead)


def test_a_permanent_failure_is_dead_at_once() -> None:
    failure = Failure(kind=FailureClass.PERMANENT, reason="The key is wrong", retry_after=5)
    assert next_step(failure, 1, RetryPolicy(), random.Random(1)) == Dead(reason="The key is wrong")


def test_a_refusal_is_answered() -> None:
    failure = Failure(kind=FailureClass.REFUSED, reason="Only the owner may do that")
    assert next_step(failure, 1, RetryPolicy(), random.Random(1)) == Answer(reason="Only the owner may do that")
    assert isinstance(next_step(failure, 9, RetryPolicy(), random.Random(1)), Answer)


@pytest.mark.parametrize(
    ("asked", "delay_ms"),
    [
        (None, 5_000),
        (0.0, 5_000),
        (2.0, 5_000),
        (30.0, 30_000),
        (30.0001, 30_001),
        (86_400.0, 86_400_000),
        (-1.0, 5_000),
        (float("nan"), 5_000),
    ],
)
def test_retry_after_is_honoured(asked: float | None, delay_ms: int) -> None:
    failure = Failure(kind=FailureClass.TRANSIENT, reason="busy", retry_after=asked)
    assert next_step(failure, 1, STEADY, random.Random(1)) == RetryAt(delay_ms=delay_ms)


@pytest.mark.parametrize("asked", [86_401.0, 1e300, float("inf")])
def test_nobody_waits_for_ever(asked: float) -> None:
    failure = Failure(kind=FailureClass.TRANSIENT, reason="busy", retry_after=asked)
    step = next_step(failure, 1, STEADY, random.Random(1))
    assert isinstance(step, Dead)
    assert "at most 86400 s are waited" in step.reason


@given(
    attempt=st.integers(1, 5000),
    asked=st.none() | st.floats(0, 86_400),
    jitter=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_jitter_only_ever_waits_longer_and_by_its_share(
    attempt: int, asked: float | None, jitter: float, seed: int
) -> None:
    failure = Failure(kind=FailureClass.TRANSIENT, reason="busy", retry_after=asked)
    policy = RetryPolicy(max_attempts=10_000, jitter=jitter)
    step = next_step(failure, attempt, policy, random.Random(seed))
    assert isinstance(step, RetryAt)
    least = max(min(5 * 2 ** (attempt - 1), 86_400), asked or 0) * 1000
    assert least <= step.delay_ms <= least * (1 + jitter) + 1


def test_jitter_spreads_and_repeats_with_its_seed() -> None:
    def delays(seed: int) -> list[object]:
        rng = random.Random(seed)
        return [next_step(BUSY, 1, RetryPolicy(), rng) for _ in range(20)]

    assert len(set(delays(1))) > 10
    assert delays(1) == delays(1)
    assert delays(1) != delays(2)


def test_every_transient_failure_ends() -> None:
    rng = random.Random(1)
    ended = next(n for n in count(1) if isinstance(next_step(BUSY, n, RetryPolicy(), rng), Dead))
    assert ended == 5
