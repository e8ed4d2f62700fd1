"""Opening the office in the background: for `up --detach` and `restart`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manydesks.cli.detach import ASK_SECONDS, sole_start, start, wait_until_ready
from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import AlreadyRunning, NotAnswering, OfficeError
from manydesks.office.exposure import exposure_of

#: recovery takes under 3 s and a starting host waits 5 s for the lock; the rest is for a loaded machine
READY_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An office that answers."""

    pid: int
    #: what it says from now on
    log: Path


def command_of(home: Path) -> list[str]:
    """What opens the office on this home. -P: without it the current folder would come first on its import path."""
    return [sys.executable, "-P", "-m", "manydesks", "--home", str(home), "up"]


def open_in_background(invocation: Invocation) -> Opened:
    """Return when the office answers. Raises AlreadyRunning, or the sentence that the office ended with."""
    home = invocation.home
    home.prepare()
    log = home.logs / "host.log"
    found: dict[str, Any] | None = None
    with sole_start(log) as since:
        running = invocation.door.host()
        if running is not None:
            raise AlreadyRunning(home=home.path, pid=running["pid"])
        child = start(command_of(home.path), log=log)

        def ready() -> bool:
            nonlocal found
            try:
                found = host = invocation.door.host()
            except NotAnswering:  # the socket is there, the host is still busy with its recovery
                return False
            return host is not None and host["pid"] == child.pid

        wait_until_ready(child, ready=ready, log=log, since=since, clock=invocation.clock, limit=READY_SECONDS)
    if (exposed := exposure_of(found)) is not None:
        invocation.out.note(exposed)  # what it says itself goes to its log
    return Opened(pid=child.pid, log=log)


def wait_for_office(invocation: Invocation, limit: float) -> dict[str, Any]:
    """The office that somebody else has started, as soon as it answers; OfficeError when the time (seconds) is over."""
    deadline = invocation.clock.monotonic() + round(limit * 1000)
    while True:
        try:
            host = invocation.door.host()
        except NotAnswering:
            host = None
        if host is not None:
            return host
        if invocation.clock.monotonic() >= deadline:
            log = invocation.home.logs / "host.log"
            raise OfficeError(f"The office was started, but does not answer after {limit:g} s; its log is {log}.")
        time.sleep(ASK_SECONDS)
