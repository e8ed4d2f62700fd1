from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from manydesks.runner.providers.http_api.talk import Call, Entry, Exchange, File, Result, Words
from manydesks.runner.providers.http_api.trimming import DENSITIES, ROOM, Weight, corrected, trim, weigh


def exchange(size: int, calls: int = 0) -> Exchange:
    made = tuple(Call(id=f"c{n}", name="t", arguments={"a": n}) for n in range(calls))
    results = tuple(Result(id=call.id, ok=True, text="r") for call in made)
    entries = [Entry(role="user", parts=(Words(text="x" * size),))]
    if calls:
        entries += [Entry(role="model", parts=made), Entry(role="tools", parts=results)]
    return Exchange(entries=(*entries, Entry(role="model", parts=(Words(text="ok"),))))


EXCHANGES = st.lists(st.builds(exchange, st.integers(0, 3_000), st.integers(0, 3)), max_size=12)
WEIGHTS = st.builds(Weight, bytes=st.integers(0, 5_000), tokens=st.integers(0, 2_000))
DENSITY = st.floats(*DENSITIES)


@given(EXCHANGES, WEIGHTS, st.integers(1, 10_000), DENSITY)
def test_what_is_kept_is_the_end_and_fits(past: list[Exchange], fixed: Weight, budget: int, density: float) -> None:
    kept = trim(past, fixed=fixed, budget=budget, density=density)
    assert kept.dropped + len(kept.exchanges) == len(past)
    # whole exchanges from the front: every call that is left has its result
    assert kept.exchanges == tuple(past[kept.dropped :])
    total = sum((weigh(one.entries) for one in kept.exchanges), fixed).estimate(density)
    everything = sum((weigh(one.entries) for one in past), fixed).estimate(density)
    if everything <= budget:
        assert kept.dropped == 0
    elif kept.exchanges:
        assert total <= budget * ROOM
    if kept.dropped and everything > budget:
        # one more would have been too much
        more = sum((weigh(one.entries) for one in past[kept.dropped - 1 :]), fixed).estimate(density)
        assert more > budget * ROOM


@given(EXCHANGES, WEIGHTS, st.integers(1, 10_000), DENSITY)
def test_what_was_trimmed_stays_as_it_is(past: list[Exchange], fixed: Weight, budget: int, density: float) -> None:
    once = trim(past, fixed=fixed, budget=budget, density=density)
    if once.exchanges:
        assert trim(once.exchanges, fixed=fixed, budget=budget, density=density).dropped == 0


@given(WEIGHTS, DENSITY, st.none() | st.integers(0, 20_000))
def test_a_count_corrects_the_estimate(weight: Weight, density: float, counted: int | None) -> None:
    new = corrected(density, weight, counted)
    assert DENSITIES[0] <= new <= DENSITIES[1]
    if counted is None:
        assert new == density
    elif counted > weight.tokens and weight.bytes and DENSITIES[0] < new < DENSITIES[1]:
        assert abs(weight.estimate(new) - counted) <= 1


def test_files_weigh_what_models_make_of_them() -> None:
    def of(mime: str, size: int) -> Weight:
        return weigh([Entry(role="user", parts=(File(digest="", name="", mime=mime, bytes=size),))])

    assert of("image/png", 4_000_000) == of("image/png", 10)
    assert of("application/pdf", 4_000_000).tokens > of("application/pdf", 10).tokens > 0


def test_text_weighs_its_bytes() -> None:
    assert weigh([Entry(role="user", parts=(Words(text="茶" * 100),))]).bytes > 300
    assert weigh([Entry(role="user", parts=(Words(text="\ud800"),))]).bytes > 0
