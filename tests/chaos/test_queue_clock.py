"""Somebody sets the wall clock, the machine sleeps or starts anew: nothing is freed early, nothing is frozen.

Run as a script, this file is a process whose wall clock is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.clock import SystemClock
from manydesks.queue import Queue
from manydesks.testing.clock import ManualClock
from manydesks.testing.jobs import trouble

SECOND = 1_000
DAY = 86_400_000

jumps = pytest.mark.parametrize("jump", [DAY, -DAY, 3650 * DAY], ids=["a day on", "a day back", "ten years on"])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def open_queue(folder: Path, clock: ManualClock, boot: str = "first") -> Queue:
    return Queue(folder / "jobs.db", lease=30, backoff=10, clock=clock, boot=boot)


@jumps
def test_a_lease_takes_its_time(tmp_path: Path, clock: ManualClock, jump: int) -> None:
    with closing(open_queue(tmp_path, clock)) as queue:
        queue.send("x")
        message = queue.receive()
        assert message is not None
        clock.advance(10 * SECOND)
        clock.jump(jump)
        clock.advance(19 * SECOND)
        assert queue.receive() is None
        assert queue.extend(message, 30)
        clock.jump(-2 * jump)
        clock.advance(29 * SECOND)
        assert queue.receive() is None
        clock.advance(1 * SECOND)
        again = queue.receive()
        assert again is not None
        assert again.attempt == 2
        assert not queue.complete(message)
        assert queue.complete(again)
    assert trouble(tmp_path / "jobs.db", lease_ms=30_000) == []


@jumps
def test_a_delay_and_a_back_off_take_their_time(tmp_path: Path, clock: ManualClock, jump: int) -> None:
    with closing(open_queue(tmp_path, clock)) as queue:
        queue.send("delayed", delay=100)
        queue.send("failed")
        message = queue.receive()
        assert message is not None
        queue.fail(message, "no", retry_in=60)
        clock.jump(jump)
        clock.advance(59 * SECOND)
        assert queue.receive() is None
        clock.advance(1 * SECOND)
        clock.jump(-2 * jump)
        assert (again := queue.receive()) is not None
        assert again.body == "failed"
        assert queue.complete(again)
        clock.advance(39 * SECOND)
        assert queue.receive() is None
        clock.advance(1 * SECOND)
        assert (late := queue.receive()) is not None
        assert late.body == "delayed"
    assert trouble(tmp_path / "jobs.db") == []


@jumps
def test_opening_it_again_frees_nothing(tmp_path: Path, clock: ManualClock, jump: int) -> None:
    """A process that comes later, after the clock was set, counts on the same clock as the others."""
    with closing(open_queue(tmp_path, clock)) as queue:
        queue.send("claimed")
        assert queue.receive() is not None
        queue.send("delayed", delay=20)
    clock.jump(jump)
    with closing(open_queue(tmp_path, clock)) as queue:
        clock.advance(19 * SECOND)
        assert queue.receive() is None
        clock.advance(1 * SECOND)
        assert (due := queue.receive()) is not None
        assert due.body == "delayed"
        clock.advance(10 * SECOND)
        assert (freed := queue.receive()) is not None
        assert freed.body == "claimed"


def test_the_machine_sleeps(tmp_path: Path, clock: ManualClock) -> None:
    """Who had it slept too, and has the rest of its lease; a delay was promised in seconds, and these are over."""
    with closing(open_queue(tmp_path, clock)) as queue:
        queue.send("claimed")
        message = queue.receive()
        assert message is not None
        queue.send("delayed", delay=3600)
        clock.sleep(DAY)
        assert (due := queue.receive()) is not None
        assert due.body == "delayed"
        assert queue.receive() is None
        assert queue.complete(message)


@pytest.mark.parametrize("away", [5 * SECOND, DAY, -DAY], ids=["soon", "a day later", "with a clock a day behind"])
def test_another_boot(tmp_path: Path, clock: ManualClock, away: int) -> None:
    """Nobody who had something lives: it is free at once, as a new attempt. Delays go on, as far as one can tell."""
    with closing(open_queue(tmp_path, clock)) as queue:
        queue.send("claimed")
        queue.send("of a lane", lane="a")
        queue.send("delayed", delay=DAY // SECOND + 60)
        old = queue.receive_batch(2)
        clock.advance(5 * SECOND)
    clock.reboot(away=away)
    with closing(open_queue(tmp_path, clock, "second")) as queue:
        again = queue.receive_batch(2)
        assert [(message.body, message.attempt) for message in again] == [("claimed", 2), ("of a lane", 2)]
        assert not any(queue.complete_batch(old))
        assert all(queue.complete_batch(again))
        left = DAY + 55 * SECOND - max(0, away) if away != -DAY else DAY + 60 * SECOND
        clock.advance(left - 6 * SECOND)
        assert queue.receive() is None
        clock.advance(12 * SECOND)
        assert (due := queue.receive()) is not None
        assert due.body == "delayed"
    assert trouble(tmp_path / "jobs.db") == []


def test_leases_of_a_boot_that_was_longer(tmp_path: Path, clock: ManualClock) -> None:
    """The clock of the boot begins at 0: a lease until a million must not last until the next million."""
    clock.advance(1000 * DAY)
    with closing(open_queue(tmp_path, clock)) as queue:
        queue.send("x")
        assert queue.receive() is not None
    clock.reboot()
    with closing(open_queue(tmp_path, clock, "second")) as queue:
        assert (again := queue.receive()) is not None
        clock.advance(29 * SECOND)
        assert queue.receive() is None
        assert queue.complete(again)


def test_a_machine_that_comes_up_in_1970(tmp_path: Path, clock: ManualClock) -> None:
    """Its delays go on from where the file was last used, though its old events were cleared away."""
    with closing(open_queue(tmp_path, clock)) as queue:
        clock.advance(DAY)
        queue.send("delayed", delay=60)
        clock.advance(10 * SECOND)
        queue.prune(0)
    clock.reboot(away=-clock.now())
    with closing(open_queue(tmp_path, clock, "second")) as queue:
        clock.advance(49 * SECOND)
        assert queue.receive() is None
        clock.advance(11 * SECOND)
        assert queue.receive() is not None


def test_many_boots(tmp_path: Path, clock: ManualClock) -> None:
    """A machine that starts over and over: every boot is an attempt of what was under way, and then it is dead."""
    for boot in range(5):
        with closing(open_queue(tmp_path, clock, f"boot-{boot}")) as queue:
            if boot == 0:
                queue.send("poison")
            message = queue.receive()
            assert message is not None
            assert message.attempt == boot + 1
        clock.reboot(away=SECOND)
    with closing(open_queue(tmp_path, clock, "last")) as queue:
        assert queue.receive() is None
        assert [job.reason for job in queue.dead_letters()] == ["the lease ran out"]
    assert trouble(tmp_path / "jobs.db") == []


# real processes that do not agree on the time

WAIT = 0.8


class WrongClock(SystemClock):
    def __init__(self, off: int) -> None:
        self._off = off

    def now(self) -> int:
        return super().now() + self._off


def play(path: str, off: str, verb: str) -> None:
    with closing(Queue(path, lease=WAIT, clock=WrongClock(int(off)))) as queue:
        said: dict[str, Any] = {"before": time.monotonic()}
        if verb == "claim":
            assert queue.receive() is not None
        elif verb == "delay":
            queue.send("delayed", delay=WAIT)
        else:
            while (message := queue.receive()) is None:
                assert time.monotonic() - said["before"] < 20
                time.sleep(0.002)
            said |= {"body": message.body, "attempt": message.attempt, "after": time.monotonic()}
            assert queue.complete(message)
        print(json.dumps(said))


def process(jobs: Path, off: int, verb: str) -> Callable[[], dict[str, Any]]:
    running = subprocess.Popen([sys.executable, __file__, str(jobs), str(off), verb], stdout=subprocess.PIPE, text=True)

    def told() -> dict[str, Any]:
        said, _ = running.communicate(timeout=60)
        assert running.returncode == 0
        found: dict[str, Any] = json.loads(said)
        return found

    return told


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(DAY, -DAY), (-DAY, DAY), (0, DAY), (0, -DAY)])
def test_processes_that_do_not_agree_on_the_time(tmp_path: Path, first: int, second: int) -> None:
    jobs = tmp_path / "jobs.db"
    with closing(Queue(jobs)) as queue:
        queue.send("claimed")
    begun = process(jobs, first, "claim")()
    told = process(jobs, second, "wait")()
    assert (told["body"], told["attempt"]) == ("claimed", 2)
    # a clock of milliseconds may be one behind
    assert WAIT - 0.002 < told["after"] - begun["before"] < 15
    begun = process(jobs, second, "delay")()
    told = process(jobs, first, "wait")()
    assert told["body"] == "delayed"
    assert WAIT - 0.002 < told["after"] - begun["before"] < 15
    assert trouble(jobs, lease_ms=int(WAIT * 1000)) == []


if __name__ == "__main__":
    play(*sys.argv[1:])
