"""The desks' disk becomes full at one step of a run's beginning: the run waits there, and goes on when there is room.

Run as a script, this file is a host whose desks have no room from one step on: `STEP --home … up`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.testing.audit import complaints
from manydesks.testing.disk import BALLAST, fill
from manydesks.testing.office import OfficeProcess

#: a step's name → where it is
STEPS = {
    "prepare": "manydesks.mailbox.host:HostMailbox.prepare",
    "put": "manydesks.mailbox.host:HostMailbox.put",
    "mark": "manydesks.desk.confined:Confined.mark",
    "orders": "manydesks.runner.orders:Orders.write",
    "sandbox": "manydesks.desk.sandboxes.bubblewrap:Bubblewrap.start",
}
SETTINGS = {
    #: an attempt that counts is the last one
    "MANYDESKS_RETRY__MAX_ATTEMPTS": "1",
    #: the shortest
    "MANYDESKS_RUNNER__HEARTBEAT_SECONDS": "10",
    "MANYDESKS_RUNNER__STOP_SECONDS": "1",
}


# the host whose disk becomes full


def arm(step: str, sessions: Path) -> None:
    module, _, path = STEPS[step].partition(":")
    name, _, attribute = path.partition(".")
    owner = getattr(importlib.import_module(module), name)
    real, left = getattr(owner, attribute), [True]

    def called(*args: Any, **more: Any) -> Any:
        if left:
            left.clear()
            fill(sessions)
        return real(*args, **more)

    setattr(owner, attribute, called)


if __name__ == "__main__":
    arm(sys.argv.pop(1), Path(sys.argv[2]) / "sessions")
    from manydesks.cli.main import main

    sys.exit(main())


# the tests


class Crowded:
    """An office whose desks have 4 MiB, until the first run comes to a step; its agent `dan` sits in a sandbox."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.office = OfficeProcess(home)

    def begin(self, step: str) -> str:
        """Open, and send something whose run comes to the step; its trace."""
        environ = {**os.environ, **SETTINGS}
        self.office = OfficeProcess(self.home, environ, command=(sys.executable, __file__, step))
        self.office.start()
        self.office.door.ask("agent_add", id="dan", sandbox="bubblewrap")
        return str(self.office.door.ask("send", text="!say there", to="dan")["traceId"])

    def desk_log(self) -> str:
        return "".join(log.read_text() for log in (self.home / "logs" / "desks").glob("*.log"))

    def waits(self, times: int = 1) -> None:
        """Somebody has said so often that there is no room, the office or the runner."""
        self.office.until(lambda _: (self.office.log() + self.desk_log()).count("Trying again") >= times)

    def returned(self) -> None:
        self.office.until(lambda reader: reader.events(0, 1000, kinds=["message_returned"]))

    def free(self) -> None:
        (self.home / "sessions" / BALLAST).unlink()

    def at_rest(self, trace: str) -> dict[str, Any]:
        (message,) = self.office.trace(trace)["messages"]
        assert (message["status"], message["lastError"]) == ("completed", None), message
        assert [r["text"] for r in message["responses"]] == ["there"]
        assert self.office.stop() == 0
        assert complaints(self.office.home.office_db) == []
        return message


@pytest.fixture
def crowded(home: Path, mount: Callable[..., None]) -> Iterator[Crowded]:
    mount("size=4m", "mode=700", at=home / "sessions")
    made = Crowded(home)
    yield made
    made.office.kill()


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_begins_on_a_full_disk_waits(crowded: Crowded, step: str) -> None:
    trace = crowded.begin(step)
    crowded.waits()
    # no half of a word is left for whoever has to know where a stranger sat
    words = {path.read_text() for path in crowded.home.glob("sessions/dan/*/host/sandbox")}
    assert words <= {"bubblewrap"}
    crowded.free()
    assert crowded.at_rest(trace)["attempts"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("step", "runs"), [("put", ["completed"]), ("sandbox", ["released", "completed"])])
def test_a_disk_that_stays_full_counts_no_attempt(crowded: Crowded, step: str, runs: list[str]) -> None:
    """For longer than a runner may be without a heartbeat. One that has sat down is ended, and what it was to do waits
    for room; while there is none to sit down, nobody hangs."""
    trace = crowded.begin(step)
    if step == "put":
        crowded.waits(13)
    else:
        crowded.returned()
    crowded.free()
    assert [run["outcome"] for run in crowded.at_rest(trace)["runs"]] == runs


@pytest.mark.slow
@pytest.mark.parametrize("step", ["put", "orders", "sandbox"])
def test_an_office_that_is_closed_on_a_full_disk(crowded: Crowded, step: str) -> None:
    trace = crowded.begin(step)
    crowded.waits()
    assert crowded.office.stop() == 0
    crowded.free()
    crowded.office = OfficeProcess(crowded.home, {**os.environ, **SETTINGS})
    crowded.office.start()
    assert [run["outcome"] for run in crowded.at_rest(trace)["runs"]] == ["released", "completed"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["put", "orders", "sandbox"])
def test_a_person_stops_what_waits_for_room(crowded: Crowded, step: str) -> None:
    """It ends while the disk is still full, and nobody works on it later, although its inbox cannot be cleared now."""
    trace = crowded.begin(step)
    crowded.waits()
    crowded.office.door.ask("cancel", id=trace)
    (message,) = crowded.office.trace(trace)["messages"]
    (run,) = crowded.office.until(lambda reader: reader.events(0, 1000, kinds=["chain_step_done"]))
    assert (message["status"], run["data"]["outcome"]) == ("cancelled", "cancelled")
    later = str(crowded.office.door.ask("send", text="!say there", to="dan")["traceId"])
    crowded.free()
    assert crowded.at_rest(later)["attempts"] == 1
    assert run["run"] not in crowded.desk_log()
