from __future__ import annotations

import time

import pytest

from manydesks.cli.quantity import cost, count, duration, moment


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min 0 s"),
        (3_599_999, "1 h 0 min"),
        (86_399_999, "1 d 0 h"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_duration(milliseconds, shown):
    assert duration(milliseconds) == shown


def test_a_moment_is_in_the_local_zone(monkeypatch):
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        assert moment(1_700_000_000_000) == "2023-11-14 17:13:20"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_moment_outside_the_calendar():
    assert moment(10**18) == f"{10**18} ms"
    assert moment(None) == "-"


def test_counts_and_costs():
    assert (count(1, "run"), count(0, "run"), count(2000, "run")) == ("1 run", "0 runs", "2,000 runs")
    assert (cost(None), cost(0), cost(1.5)) == ("cost unknown", "$0.0000", "$1.5000")
