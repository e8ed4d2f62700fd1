"""What is told of a number that cannot be."""

from __future__ import annotations

import click
import pytest

from manydesks.cli.number import NUMBER, Whole


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (Whole(1, 99), "0", "'0' is not a whole number from 1 to 99."),
        (Whole(1, 99), "x", "'x' is not a whole number from 1 to 99."),
        (Whole(1), "1.5", "'1.5' is not a whole number of 1 or more."),
        (Whole(), "", "'' is not a whole number."),
        (NUMBER, str(2**63), f"'{2**63}' is not a whole number from 0 to {2**63 - 1}."),
    ],
)
def test_what_is_allowed_is_said(kind: Whole, given: str, told: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(given, None, None)
    assert refused.value.message == told


def test_the_bounds_are_allowed() -> None:
    assert [Whole(1, 99).convert(given, None, None) for given in ("1", "99")] == [1, 99]
    assert Whole().convert("-5", None, None) == -5
