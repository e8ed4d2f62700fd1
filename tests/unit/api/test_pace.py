"""So many requests a minute of each machine."""

from __future__ import annotations

import pytest

from manydesks.api.gate import is_local
from manydesks.api.pace import Pace
from manydesks.testing.clock import ManualClock


def test_a_minute_s_worth_at_once_and_then_as_time_goes_by() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    assert [pace.wait("10.0.0.1", 60) for _ in range(60)] == [0] * 60
    assert pace.wait("10.0.0.1", 60) == 1
    assert pace.wait("10.0.0.2", 60) == 0
    clock.advance(1000)
    assert pace.wait("10.0.0.1", 60) == 0
    assert pace.wait("10.0.0.1", 60) == 1
    clock.advance(3_600_000)
    assert [pace.wait("10.0.0.1", 60) for _ in range(61)] == [0] * 60 + [1]


def test_it_says_when_to_ask_again() -> None:
    pace = Pace(ManualClock())
    pace.wait("10.0.0.1", 1)
    assert pace.wait("10.0.0.1", 1) == 60


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_who_is_counted(address: str, local: bool) -> None:
    assert is_local(address) is local
