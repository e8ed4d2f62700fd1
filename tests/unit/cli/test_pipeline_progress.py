"""The bar of a long command: on a terminal only, and gone when it is over."""

from __future__ import annotations

import io

import pytest

from manydesks.cli.output import Output
from manydesks.cli.pipeline.progress import line_of, progress
from manydesks.testing.clock import ManualClock


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


def test_a_terminal_sees_each_step_with_its_own_seconds() -> None:
    stderr, clock = Terminal(), ManualClock()
    with progress(Output(io.StringIO(), stderr), clock) as bar:
        bar.say("starting Spark")
        clock.advance(5_000)
        bar.step("events", 1, 2)
        clock.advance(3_000)
        bar.step("events", 2, 2)
    shown = stderr.getvalue().split("\r\x1b[K")[1:]
    assert shown[0] == "starting Spark     0 s"
    assert "1 of 2  0 s" in shown[1]
    assert "2 of 2  3 s" in "".join(shown)
    assert shown[-1] == ""  # nothing is left of it


@pytest.mark.parametrize(("stderr", "json"), [(io.StringIO(), False), (Terminal(), True)])
def test_a_pipe_and_a_program_see_nothing(stderr: io.StringIO, json: bool) -> None:
    with progress(Output(io.StringIO(), stderr, json=json)) as bar:
        bar.say("starting Spark")
        bar.step("events", 1, 2)
    assert stderr.getvalue() == ""
