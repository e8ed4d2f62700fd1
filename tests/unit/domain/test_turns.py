"""Whose turn it is: nobody who may begin is overtaken twice by the same agent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.caps import Caps
from manydesks.domain.turns import Able, Turns


def able(agent: str, *, running: int = 0, concurrency: int = 9, provider: str = "rehearsal") -> Able:
    return Able(agent=agent, provider=provider, concurrency=concurrency, running=running)


def test_the_first_of_equals_and_then_the_others() -> None:
    turns, all_of_them = Turns(), [able("urgent"), able("b"), able("c")]
    had = []
    for _ in range(7):
        one = turns.next(all_of_them)
        turns.took(one.agent)
        had.append(one.agent)
    assert had == ["urgent", "b", "c", "urgent", "b", "c", "urgent"]


def test_who_has_fewer_desks_comes_first_however_long_the_other_waits() -> None:
    turns = Turns()
    turns.took("idle")
    assert turns.next([able("busy", running=3), able("idle")]).agent == "idle"


def test_who_was_not_able_for_long_gets_one_turn_and_no_arrears() -> None:
    turns = Turns()
    turns.took("late")
    for _ in range(100):
        turns.took("always")
    had = []
    for _ in range(4):
        one = turns.next([able("always"), able("late")])
        turns.took(one.agent)
        had.append(one.agent)
    assert had == ["late", "always", "late", "always"]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), min_size=1, max_size=60))
def test_nobody_is_overtaken_twice(rounds: list[list[str]]) -> None:
    """Whatever comes and goes: until its own turn comes, each other one goes before it once at most."""
    turns = Turns()
    overtaken: dict[str, list[str]] = {}
    for present in rounds:
        one = turns.next([able(agent) for agent in present]).agent
        turns.took(one)
        for other in present:
            if other == one:
                overtaken[other] = []
            else:
                overtaken.setdefault(other, []).append(one)
                assert len(set(overtaken[other])) == len(overtaken[other])


def test_a_cap_of_its_own_goes_before_and_who_asks_takes_no_desk() -> None:
    caps = Caps(each=8, own={"claude": 2}, asking={"claude": 1})
    assert (caps.of("claude"), caps.of("openai")) == (3, 8)
