from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.budget import (
    MICROS,
    MOST,
    NOTHING,
    UNITS,
    Amounts,
    Book,
    Budget,
    Go,
    Over,
    Wait,
    day_ends,
    day_of,
    decide,
    expected,
    left,
    micros,
    parse_budget,
    percentile,
    readable_budget,
    shown,
    zone,
)
from manydesks.domain.errors import BadInput
from manydesks.domain.prices import Price, Prices

NOON = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def book(cap: Amounts, spent: Amounts = NOTHING, reserved: Amounts = NOTHING, **more: Any) -> Book:
    usual: dict[str, Any] = {"scope": "agent", "subject": "ada", "day": "2026-07-30"}
    return Book(**{**usual, **more}, cap=cap, spent=spent, reserved=reserved)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2usd/day", {"usd": 2.0}),
        ("2.50 usd / day", {"usd": 2.5}),
        ("2usd/day, 200_000tokens/day, 50runs/day", {"usd": 2.0, "tokens": 200_000, "runs": 50}),
        ("50 Runs/Day,1usd/day", {"usd": 1.0, "runs": 50}),
        ("0usd/day", {"usd": 0.0}),
        ("none", {}),
        (" None ", {}),
        ("", {}),
    ],
)
def test_budgets_are_read(text: str, means: dict[str, float]) -> None:
    assert parse_budget(text) == means
    assert parse_budget(readable_budget(means)) == means


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "'2' is not an amount of a budget; allowed are amounts a day such as '2usd/day"),
        ("2usd", "'2usd' is not an amount"),
        ("2usd/month", "'2usd/month' is not an amount"),
        ("-2usd/day", "'-2usd/day' is not an amount"),
        ("1.5runs/day", "A budget counts whole runs, not 1.5"),
        ("2usd/day, 3usd/day", "names usd twice"),
        ("2usd/day,", "'' is not an amount"),
        ("nanusd/day", "is not an amount"),
        ("1e9usd/day", "is not an amount"),
        (f"{10**12}usd/day", "at most 1,000,000,000"),
        ("0.0000000004usd/day", "0, which is no cap, or at least 0.000001, not 0.0000000004"),
    ],
)
def test_what_is_no_budget_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=r".") as refused:
        parse_budget(text)
    assert said in str(refused.value)


@given(st.text(alphabet="0123456789.,_ /usdtokenra-", max_size=60))
def test_reading_a_budget_ends_in_a_budget_or_a_sentence(text: str) -> None:
    refused = None
    try:
        assert set(parse_budget(text)) <= set(UNITS)
    except BadInput as error:
        refused = str(error)
    assert refused is None or refused.endswith(".")


def test_an_agents_own_amounts_go_before_the_offices() -> None:
    budget = Budget(agent=Amounts(usd=5 * MICROS, tokens=100, runs=7))
    assert budget.of_agent(None) == budget.of_agent({}) == budget.agent
    assert budget.of_agent({"usd": 2.0}) == Amounts(usd=2 * MICROS, tokens=100, runs=7)
    assert budget.of_agent({"tokens": 0}) == Amounts(usd=5 * MICROS, tokens=0, runs=7)


def test_a_run_begins_while_there_is_room() -> None:
    wanted = Amounts(usd=300, tokens=10, runs=1)
    assert decide([book(NOTHING)], wanted) == Go(reserve=wanted)
    assert decide([book(Amounts(usd=1000), Amounts(usd=700))], wanted) == Go(reserve=wanted)
    over = decide([book(Amounts(usd=1000), Amounts(usd=701))], wanted)
    assert isinstance(over, Over)
    assert (over.unit, over.amount) == ("usd", 300)


def test_what_is_only_reserved_may_come_back() -> None:
    wanted = Amounts(usd=300, runs=1)
    assert decide([book(Amounts(usd=1000), Amounts(usd=500), Amounts(usd=300))], wanted) == Wait()
    assert isinstance(decide([book(Amounts(usd=1000), Amounts(usd=800), Amounts(usd=300))], wanted), Over)


def test_a_run_never_reserves_more_than_a_cap() -> None:
    wanted = Amounts(usd=5000, tokens=None, runs=1)
    tight = book(Amounts(usd=1000), scope="trace")
    assert decide([book(Amounts(usd=2000)), tight], wanted) == Go(reserve=Amounts(usd=1000, tokens=0, runs=1))
    # the whole of the smaller cap
    assert isinstance(decide([book(Amounts(usd=2000), Amounts(usd=1001)), tight], wanted), Over)


def test_an_unknown_price_binds_no_dollars() -> None:
    spent = book(Amounts(usd=1000, tokens=50), Amounts(usd=1000, tokens=40))
    assert decide([spent], Amounts(usd=None, tokens=10, runs=1)) == Go(reserve=Amounts(usd=0, tokens=10, runs=1))
    assert isinstance(decide([spent], Amounts(usd=None, tokens=11, runs=1)), Over)
    assert isinstance(decide([spent], Amounts(usd=None, tokens=None, runs=1)), Go)


def test_what_is_used_up_is_used_up_also_for_runs_that_cost_nothing() -> None:
    assert isinstance(decide([book(Amounts(usd=1000), Amounts(usd=1000))], Amounts(usd=0, runs=1)), Over)


def test_runs_are_counted_exactly() -> None:
    one = Amounts(usd=None, tokens=None, runs=1)
    assert isinstance(decide([book(Amounts(runs=3), Amounts(runs=2))], one), Go)
    assert decide([book(Amounts(runs=3), Amounts(runs=1), Amounts(runs=2))], one) == Wait()
    assert isinstance(decide([book(Amounts(runs=3), Amounts(runs=3))], one), Over)


def test_as_much_again() -> None:
    full = Amounts(runs=3)
    assert isinstance(decide([book(Amounts(runs=3), full, extra=1)], Amounts(runs=1)), Go)
    assert isinstance(decide([book(Amounts(runs=3), Amounts(runs=6), extra=1)], Amounts(runs=1)), Over)


AMOUNTS = st.builds(Amounts, usd=st.integers(0, 50), tokens=st.integers(0, 50), runs=st.integers(0, 5))
WANTED = st.builds(Amounts, usd=st.none() | st.integers(0, 60), tokens=st.none() | st.integers(0, 60), runs=st.just(1))


@given(st.lists(st.builds(book, AMOUNTS, AMOUNTS, AMOUNTS, extra=st.integers(0, 2)), max_size=3), WANTED)
def test_what_begins_stays_within_every_cap(books: list[Book], wanted: Amounts) -> None:
    decision = decide(books, wanted)
    if not isinstance(decision, Go):
        return
    for one in books:
        for unit in UNITS:
            if wanted.of(unit) is not None and one.limit(unit):
                used = (one.spent.of(unit) or 0) + (one.reserved.of(unit) or 0)
                assert used + (decision.reserve.of(unit) or 0) <= one.limit(unit)


def test_what_is_left_of_a_run() -> None:
    # 1000, of which 300 are spent and 200 reserved by others
    of = book(Amounts(tokens=1000), Amounts(tokens=300), Amounts(tokens=350))
    assert left(of, "tokens", 150) == 500
    assert left(of, "usd", 0) is None


def test_what_the_next_run_will_use() -> None:
    first = Amounts(usd=9, tokens=9, runs=1)
    assert expected([], first) == first
    assert expected([(None, 5), (None, 7)], first) == Amounts(usd=None, tokens=7, runs=1)
    assert expected([(None, None)], first) == Amounts(usd=None, tokens=None, runs=1)
    many = [(n, None) for n in range(1, 21)]
    random.Random(1).shuffle(many)
    assert expected(many, first) == Amounts(usd=19, tokens=None, runs=1)
    assert percentile([4]) == 4


@pytest.mark.parametrize(
    ("usd", "counted"),
    [(None, None), (0.0, 0), (0.1, 100_000), (0.0000001, 1), (1.23, 1_230_000), (1e15, MOST), (float("1e300"), MOST)],
)
def test_dollars_are_counted_in_millionths(usd: float | None, counted: int | None) -> None:
    assert micros(usd) == counted


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [("usd", 500_000, "$0.50"), ("usd", 1234, "$0.0012"), ("usd", 12_345_000_000, "$12,345.00"),
     ("tokens", 1, "1 token"), ("tokens", 12_000, "12,000 tokens"), ("runs", 2, "2 runs")],
)  # fmt: skip
def test_amounts_are_shown(unit: Any, value: int, words: str) -> None:
    assert shown(unit, value) == words


def test_days_begin_where_the_office_is() -> None:
    assert day_of(NOON, "UTC") == "2023-11-14"
    assert day_of(NOON, "Asia/Tokyo") == "2023-11-15"
    assert day_ends(NOON, "UTC") - NOON == 6_400_000
    for name in ("UTC", "Asia/Tokyo", "America/St_Johns"):
        end = day_ends(NOON, name)
        assert day_of(end - 1, name) == day_of(NOON, name) < day_of(end, name)
    with pytest.raises(ValueError, match="no time zone"):
        zone("Atlantis/Main")
    with pytest.raises(ValueError, match="no time zone"):
        zone("../../etc/passwd")


def test_a_price_fits_by_the_most_exact_name() -> None:
    prices = Prices(
        of=(
            Price(model="gpt-*", input=1.0, output=2.0),
            Price(model="gpt-4.1", input=10.0, output=20.0, cache_read=1.0),
            Price(model="gpt-4*", input=5.0, output=5.0),
        )
    )
    assert prices.cost("gpt-4.1", input=1_000_000, output=0) == 10.0
    assert prices.cost("gpt-4.1", input=0, output=None, cache_read=2_000_000, cache_write=1_000_000) == 12.0
    assert prices.cost("gpt-4.5", input=0, output=1_000_000) == 5.0
    assert prices.cost("gpt-3", input=1_000_000, output=1_000_000) == 3.0
    assert prices.cost("claude", input=1, output=1) is None
    assert prices.cost(None, input=1, output=1) is None
    assert prices.cost("gpt-3", input=None, output=None) is None
