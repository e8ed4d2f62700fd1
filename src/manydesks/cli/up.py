"""`manydesks up`: opens the office."""

from __future__ import annotations

import sys
from typing import Any

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.detach import sole_start, start, wait_until_ready
from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import AlreadyRunning, NotAnswering

#: recovery takes under 3 s and a starting host waits 5 s for the lock; the rest is for a loaded machine
READY_SECONDS = 30.0


@click.command(cls=Command)
@click.option("--detach", is_flag=True, help="Run in the background; return when the office answers.")
@pass_invocation
def up(invocation: Invocation, detach: bool) -> int:
    """Open the office.

    It stays in the foreground until Ctrl-C or `manydesks down`. With --detach it goes on in the background, and what it
    says goes to logs/host.log in the office's folder, which is kept small: older parts are host.log.1 to host.log.3.
    """
    if detach:
        return _detached(invocation)
    from manydesks.office.host import run_host

    out = invocation.out

    def announce(office: dict[str, Any]) -> None:
        out.value(office)
        out.flush()  # whoever reads it waits for it; the office goes on for days

    return run_host(invocation.home, announce=announce if out.json else None)


def _detached(invocation: Invocation) -> int:
    home, out = invocation.home, invocation.out
    home.prepare()
    log = home.logs / "host.log"
    with sole_start(log) as since:
        running = invocation.door.host()
        if running is not None:
            raise AlreadyRunning(home=home.path, pid=running["pid"])
        # -P: without it the current folder would come first on the child's import path.
        child = start([sys.executable, "-P", "-m", "manydesks", "--home", str(home.path), "up"], log=log)

        def ready() -> bool:
            try:
                host = invocation.door.host()
            except NotAnswering:  # the socket is there, the host is still busy with its recovery
                return False
            return host is not None and host["pid"] == child.pid

        wait_until_ready(child, ready=ready, log=log, since=since, clock=invocation.clock, limit=READY_SECONDS)
    if out.json:
        out.value({"pid": child.pid, "log": str(log)})
    else:
        out.line(f"The office is up (process {child.pid}).")
    return 0
