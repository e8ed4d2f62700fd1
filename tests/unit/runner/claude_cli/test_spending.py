from __future__ import annotations

from typing import Any

from manydesks.runner.providers.base import Usage
from manydesks.runner.providers.claude_cli.spending import Spending


def total(tokens: int, cost: float | None = None, **more: Any) -> dict[str, Any]:
    return {"inputTokens": tokens, "outputTokens": 2 * tokens, "costUSD": cost, **more}


def used(tokens: int, cost: float | None, model: str | None = "m") -> Usage:
    return Usage(input=tokens, output=2 * tokens, cache_read=None, cache_write=None, cost_usd=cost, model=model)


def test_what_is_said_of_the_time_since_the_last_result_counts() -> None:
    spending = Spending(resumed=True)
    line = {"modelUsage": {"m": total(500, 5.0)}, "model_usage_since_last_result": {"m": total(5, 0.5), "n": total(0)}}
    assert spending.result(line) == (used(5, 0.5),)


def test_totals_become_differences() -> None:
    spending = Spending(resumed=False)
    assert spending.result({"modelUsage": {"m": total(10, 0.25)}}) == (used(10, 0.25),)
    assert spending.result({"modelUsage": {"m": total(10, 0.25)}}) == ()
    both = {"modelUsage": {"m": total(12, 0.75), "n": total(1, 0.5)}}
    assert spending.result(both) == (used(2, 0.5), used(1, 0.5, "n"))


def test_totals_from_before_are_not_booked_again() -> None:
    spending = Spending(resumed=True)
    first = spending.result({"modelUsage": {"m": total(500, 5.0)}, "usage": {"input_tokens": 3, "output_tokens": 1}})
    assert first == (Usage(input=3, output=1, cost_usd=None, model=None),)
    assert spending.result({"modelUsage": {"m": total(501, 5.5)}}) == (used(1, 0.5),)


def test_a_price_that_is_not_known_is_none() -> None:
    spending = Spending(resumed=False)
    assert spending.result({"modelUsage": {"m": total(1, 0.5, costBasis="unknown")}}) == (used(1, None),)
    assert spending.result({"modelUsage": {"m": total(2, None)}}) == (used(1, None),)


def test_nonsense_is_nothing() -> None:
    for line in ({}, {"modelUsage": 7, "usage": "x"}, {"modelUsage": {"m": 7}}, {"modelUsage": {"m": total(-1)}}):
        assert Spending(resumed=False).result(line) == ()


def test_what_was_seen_of_calls_without_a_result() -> None:
    spending = Spending(resumed=False)
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 4}
    start = {"type": "message_start", "message": {"model": "m", "usage": usage}}
    for event in (start, {"type": "message_delta", "usage": {"output_tokens": 9}}, start):
        spending.event(event)
    seen = Usage(input=20, output=10, cache_read=8, cache_write=0, cost_usd=None, model="m")
    assert spending.unfinished() == (seen,)
    assert spending.unfinished() == ()
    spending.event(start)
    spending.result({})
    assert spending.unfinished() == ()
