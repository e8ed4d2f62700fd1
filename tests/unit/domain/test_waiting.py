"""When a message that waits goes on, and what it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.states import PartState
from manydesks.domain.waiting import Part, told, verdict

O, A, D, L = PartState.OPEN, PartState.ANSWERED, PartState.DEAD, PartState.LOST  # noqa: E741


@pytest.mark.parametrize(
    ("states", "chain", "join"),
    [
        ([O], "wait", "wait"),
        ([A], "go", "go"),
        ([A, O], "wait", "wait"),
        ([A, A], "go", "go"),
        ([D], "broken", "go"),
        ([D, O], "broken", "wait"),
        ([D, A], "broken", "go"),
        ([L], "over", "go"),
        ([L, O], "over", "wait"),
        ([L, D], "over", "go"),
    ],
)
def test_verdict(states: list[PartState], chain: str, join: str) -> None:
    assert (verdict("chain", states), verdict("join", states)) == (chain, join)


def part(said: str = "", *, agent: str = "ada", state: PartState = A, reason: str = "") -> Part:
    return Part(agent=agent, message_id="m", state=state, said=said, reason=reason)


def test_every_answer_and_every_failure_is_named() -> None:
    parts = [
        part("yes\n\nno"),
        part(agent="bob", state=D, reason="no\nluck"),
        part(agent="cyd", state=L),
        part(agent="dan", state=O),
        part("  ", agent="eve"),
    ]
    assert told("sum up", parts) == (
        "sum up\n\n@ada answered:\n\n> yes\n>\n> no\n\n@bob did not answer: no luck\n\n"
        "@cyd did not answer: no reason is known\n\n@dan has not answered yet.\n\n@eve answered without a word."
    )


def test_a_message_of_its_own_may_be_empty() -> None:
    assert told("", [part("yes")]) == "@ada answered:\n\n> yes"


@given(st.text())
def test_an_answer_cannot_be_taken_for_anything_else(said: str) -> None:
    text = told("own", [part(said)])
    assert text.splitlines()[0] == "own"
    # after the heading every line is quoted, whatever the answer ends its lines with
    head, _, quoted = text.partition("answered:\n\n")
    assert head == "own\n\n@ada " or "answered without a word" in text
    assert all(line.startswith(">") for line in quoted.splitlines())


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(0, 500))
def test_what_is_too_long_is_cut_and_says_so(lengths: list[int], most: int) -> None:
    parts = [part("x" * length, agent=f"a{at}") for at, length in enumerate(lengths)]
    text = told("", parts, most=most)
    assert text.count("x") <= most
    if sum(lengths) <= most:
        assert "was cut" not in text
        assert [section.count("x") for section in text.split("@")[1:]] == lengths
    else:
        assert "This answer was cut; it has" in text


def test_short_answers_leave_their_share_to_long_ones() -> None:
    text = told("", [part("yes" * 10), part("z" * 1000, agent="bob")], most=500)
    assert "yes" * 10 in text
    assert f"> {'z' * 470}\n\n(This answer was cut; it has 1000 characters in all.)" in text
