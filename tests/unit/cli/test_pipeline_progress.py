"""The bar of a long command: on a terminal only, and gone when it is over."""

from __future__ import annotations

import io
import re
import threading
import time

import pytest

from manydesks.cli.output import Output
from manydesks.cli.pipeline.progress import LOOKING, line_of, progress
from manydesks.pipeline.jobs.step import Rows, Step
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


@pytest.mark.parametrize(
    ("room", "bar"),
    [(100, f"[{'#' * 15}{'.' * 15}]"), (70, f"[{'#' * 7}{'.' * 7}]"), (20, f"[{'#' * 5}{'.' * 5}]")],
)
def test_the_bar_leaves_room_for_the_speed(room: int, bar: str) -> None:
    line = line_of("spans", 4_000, 8_000, 12.4, passed=24_800, room=room)
    assert line == f"spans              {bar} 4,000 of 8,000  12 s  2,000 rows/s"


def test_there_is_no_speed_in_the_first_second() -> None:
    assert line_of("spans", 1, 4, 0.9, passed=900).endswith(" 1 of 4  1 s")


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


class Reading:
    """What a Spark has read, by the hand of a test."""

    def __init__(self) -> None:
        self.found: dict[str, Rows] = {}
        self.told: list[tuple[str, int, int]] = []
        self.asked = threading.Event()

    def tell(self, step: str, done: int, total: int) -> None:
        self.told.append((step, done, total))

    def rows(self) -> dict[str, Rows]:
        self.asked.set()
        return self.found


def test_a_step_moves_with_what_is_read_for_it_and_is_over_when_its_job_says_so(clock: ManualClock) -> None:
    stderr, reading = Terminal(), Reading()
    with progress(Output(io.StringIO(), stderr), clock) as bar, bar.follow(reading) as tell:
        tell("spans", 0, 4_000)
        clock.advance(2_000)
        reading.found = {"spans": Rows(1_000, 3_000), "unknown": Rows(5, 5)}
        sees(stderr, f"spans              [{'#' * 6}{'.' * 18}] 1,000 of 4,000  2 s  1,500 rows/s")
        # what is known of it is not forgotten, and more is read than was to be
        reading.found = {"spans": Rows(0, 0)}
        sees(stderr, f"spans              [{'#' * 6}{'.' * 18}] 1,000 of 4,000  2 s  1,500 rows/s")
        reading.found = {"spans": Rows(9_000, 18_000)}
        full = f"spans              [{'#' * 24}] 4,000 of 4,000  2 s  9,000 rows/s"
        sees(stderr, full)
        tell("runs", 0, 10)  # beside it, since it is not over
        sees(stderr, f"{full}\nruns               [{'.' * 30}] 0 of 10  0 s")
        tell("spans", 4_000, 4_000)
    assert reading.told == [("spans", 0, 4_000), ("runs", 0, 10), ("spans", 4_000, 4_000)]


def sees(stderr: Terminal, lines: str) -> None:
    """Once more, whatever was seen before."""
    before, until = len(drawn(stderr)), time.monotonic() + 10
    while lines.split("\n") not in drawn(stderr)[before:]:
        assert time.monotonic() < until, drawn(stderr)[-1]
        time.sleep(0.01)


def test_an_answer_that_never_comes_does_not_keep_the_command_from_ending(clock: ManualClock) -> None:
    never = threading.Event()

    class Hanging(Reading):
        def rows(self) -> dict[str, Rows]:
            super().rows()
            never.wait()
            return {}

    reading = Hanging()
    with progress(Output(io.StringIO(), Terminal()), clock) as bar, bar.follow(reading):
        assert reading.asked.wait(10)
    left = [thread for thread in threading.enumerate() if thread.name == LOOKING]
    assert [thread.daemon for thread in left] == [True]
    never.set()
    left[0].join(10)


@pytest.mark.parametrize(("stderr", "json"), [(io.StringIO(), False), (Terminal(), True)])
def test_a_pipe_and_a_program_see_nothing(stderr: io.StringIO, json: bool) -> None:
    reading = Reading()
    with progress(Output(io.StringIO(), stderr, json=json)) as bar, bar.follow(reading) as tell:
        bar.say("starting Spark")
        tell("events", 1, 2)
        assert LOOKING not in [thread.name for thread in threading.enumerate()]
    assert not reading.told  # and nothing is asked for them
    assert not bar.shown
    assert stderr.getvalue() == ""


def test_a_terminal_that_cannot_write_over_sees_nothing() -> None:
    stderr = Terminal()
    with progress(Output(io.StringIO(), stderr, environ={"TERM": "dumb"})) as bar:
        bar.step("events", 1, 300)
        assert not bar.shown
    assert stderr.getvalue() == ""
