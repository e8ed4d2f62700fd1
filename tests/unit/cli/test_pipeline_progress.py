"""The bar of a long command: on a terminal only, and gone when it is over."""

from __future__ import annotations

import io
import re

import pytest

from manydesks.cli.output import Output
from manydesks.cli.pipeline.progress import line_of, progress
from manydesks.pipeline.jobs.step import Step
from manydesks.testing.clock import ManualClock

#: to the first of several lines
UP = re.compile(r"\x1b\[\d+A$")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (("events", 0, 300, 0.4), f"events             [{'.' * 30}] 0 of 300  0 s"),
        (("events", 150, 300, 12.6), f"events             [{'#' * 15}{'.' * 15}] 150 of 300  13 s"),
        (("events", 4000, 4000, 61), f"events             [{'#' * 30}] 4,000 of 4,000  61 s"),
        # a step that is not told in rows: nobody knows how far it is
        (("spans", 0, 1, 7.0), "spans              7 s"),
        (("starting Spark", 0, 0, 2.2), "starting Spark     2 s"),
    ],
)
def test_the_line(told: tuple[str, int, int, float], line: str) -> None:
    assert line_of(*told) == line


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def drawn(stderr: Terminal) -> list[list[str]]:
    """The lines of each drawing; what goes up to the first of them is left away."""
    return [UP.sub("", part).split("\n") for part in stderr.getvalue().split("\r\x1b[J")[1:]]


def test_a_terminal_sees_each_step_with_its_own_seconds(clock: ManualClock) -> None:
    stderr = Terminal()
    with progress(Output(io.StringIO(), stderr), clock) as bar:
        bar.say("starting Spark")
        clock.advance(5_000)
        bar.step("events", 1, 2)
        clock.advance(3_000)
        bar.step("events", 2, 2)
        bar.step("messages", 0, 9)
    shown = drawn(stderr)
    assert shown[0] == ["starting Spark     0 s"]
    assert [f"events             [{'#' * 15}{'.' * 15}] 1 of 2  0 s"] in shown
    assert [f"events             [{'#' * 30}] 2 of 2  3 s"] in shown
    assert shown[-2] == [f"messages           [{'.' * 30}] 0 of 9  0 s"]
    assert shown[-1] == [""]  # nothing is left of it


def test_two_steps_at_a_time_and_what_came_of_the_last_one(clock: ManualClock) -> None:
    stderr = Terminal()
    with progress(Output(io.StringIO(), stderr), clock) as bar:
        bar.step("spans", 0, 4_000)
        clock.advance(2_000)
        bar.step("messages", 0, 4_000)
        clock.advance(1_000)
        bar.step("messages", 4_000, 4_000)
        bar.ended(Step(name="messages", taken=4_000, rows=1_200, seconds=1.04))
        bar.ended(Step(name="quarantine", taken=0, rows=0, seconds=0.0))
        bar.step("runs", 0, 1)
    spans = f"spans              [{'.' * 30}] 0 of 4,000  3 s"
    shown = drawn(stderr)
    assert [spans, f"messages           [{'#' * 30}] 4,000 of 4,000  1 s"] in shown
    messages = "messages           4,000 rows in, 1,200 out  1.0 s"
    assert shown[-2] == [messages, spans, "runs               0 s"]
    # whatever was drawn is drawn over from its first line on
    assert stderr.getvalue().endswith("\x1b[2A\r\x1b[J")


@pytest.mark.parametrize(("stderr", "json"), [(io.StringIO(), False), (Terminal(), True)])
def test_a_pipe_and_a_program_see_nothing(stderr: io.StringIO, json: bool) -> None:
    with progress(Output(io.StringIO(), stderr, json=json)) as bar:
        bar.say("starting Spark")
        bar.step("events", 1, 2)
    assert stderr.getvalue() == ""
