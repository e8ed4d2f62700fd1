"""Each cap allows exactly as much as it says."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.loopguard import Allowed, Facts, Limits, Stopped, check


def facts(**changes: Any) -> Facts:
    usual: dict[str, Any] = {"sender": "coder", "target": "reviewer", "hop": 1, "in_trace": 1, "in_pair_minute": 0}
    return Facts(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, None),
        ({"hop": 12}, None),
        ({"hop": 13}, "hops"),
        ({"in_trace": 63}, None),
        ({"in_trace": 64}, "per_trace"),
        ({"in_pair_minute": 19}, None),
        ({"in_pair_minute": 20}, "per_pair_minute"),
        ({"hop": 13, "in_trace": 64, "in_pair_minute": 20}, "hops"),
        ({"sender": None, "hop": 13, "in_pair_minute": 20}, None),
        ({"sender": None, "hop": 0, "in_trace": 64}, "per_trace"),
    ],
)
def test_the_default_caps(changes: dict[str, Any], limit: str | None) -> None:
    result = check(facts(**changes), Limits())
    assert (result.limit if isinstance(result, Stopped) else None) == limit


def test_caps_are_arguments() -> None:
    limits = Limits(hops=1, per_trace=2, per_pair_minute=1)
    assert check(facts(), limits) == Allowed()
    assert isinstance(check(facts(hop=2), limits), Stopped)
    assert isinstance(check(facts(in_trace=2), limits), Stopped)
    assert isinstance(check(facts(in_pair_minute=1), limits), Stopped)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hop": 13}, "The message from @coder to @reviewer would be hop 13 of its chain; at most 12 are allowed."),
        ({"in_trace": 64}, "64 messages follow from the same arrival already; at most 64 are allowed."),
        (
            {"in_pair_minute": 20},
            "@coder and @reviewer have exchanged 20 messages within a minute; at most 20 are allowed.",
        ),
    ],
)
def test_the_reason_is_a_sentence(changes: dict[str, Any], reason: str) -> None:
    result = check(facts(**changes), Limits())
    assert isinstance(result, Stopped)
    assert result.reason == reason


def test_two_agents_that_thank_each_other_are_stopped() -> None:
    sent = 0
    while isinstance(check(facts(hop=sent, in_trace=sent + 1, in_pair_minute=sent), Limits()), Allowed):
        sent += 1
    assert sent == 13
