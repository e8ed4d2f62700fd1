from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.repetition import LONGEST_ROUND, Repetition


def verdicts(most: int, calls: str) -> list[bool]:
    """One letter is one call: its tool and its arguments."""
    watch = Repetition(most)
    return [watch.called(letter.lower(), letter) is not None for letter in calls]


@pytest.mark.parametrize(
    ("calls", "first"),
    [
        ("aaa", 3),
        ("baaa", 4),
        ("aabaa", None),
        ("ababab", 6),
        ("abcabcabc", 9),
        ("xabababy", 7),
        ("abcdabcdabcdabcd", None),  # a round of four is work
        ("aAaAaA", 6),  # the same tool with two kinds of arguments in turn is a round too
        ("abcdefghij", None),
    ],
)
def test_when_it_is_a_circle(calls: str, first: int | None) -> None:
    found = verdicts(3, calls)
    assert (found.index(True) + 1 if True in found else None) == first


def test_the_reason_names_the_tools() -> None:
    watch = Repetition(2)
    for tool in ("Bash", "Read", "Bash"):
        assert watch.called(tool, "x") is None
    reason = watch.called("Read", "x")
    assert reason == "the agent went round in circles: it called Bash, Read 2 times with the same arguments"


@given(st.integers(2, 6), st.integers(1, LONGEST_ROUND), st.text(alphabet="abc", max_size=20))
def test_every_round_is_found_after_whatever_came_before(most: int, size: int, before: str) -> None:
    around = "xyz"[:size]
    found = verdicts(most, before + around * most)
    assert found[-1]
    # and one turn less is not enough, whatever came before
    assert not verdicts(most, "q" + around * (most - 1))[-1]
