"""`manydesks status`: is the office up, and what is in its queue."""

from __future__ import annotations

from typing import Any

import click

from manydesks import __version__
from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.quantity import duration
from manydesks.cli.text import one_line
from manydesks.domain.errors import ManyDesksError, NotAnswering

SHOWN = ("pending", "processing", "held", "dead", "outgoing")


@click.command(cls=Command)
@pass_invocation
def status(invocation: Invocation) -> int:
    """Show whether the office is up, and its queue.

    The exit code is 0 only if an office runs and answers.
    """
    out = invocation.out
    host: dict[str, Any] | None = None
    try:
        host = invocation.door.host()
        state = "up" if host is not None else "down"
    except NotAnswering as error:
        state = "not_answering"
        out.note(str(error))
    queue: dict[str, int] | None = None
    paused: list[str] = []
    try:
        queue = invocation.reader.queue_status()
        paused = [row["id"] for row in invocation.reader.agents() if row["paused"]]
    except ManyDesksError as error:
        if state == "up":
            raise
        out.note(str(error))  # the answer is "no" already, and a home that was never used has no queue
    home = str(invocation.home.path)
    if out.json:
        out.value({"status": state, "home": home, "host": host, "queue": queue, "paused": paused})
    else:
        out.line(f"office  {out.status(state.replace('_', ' '))}{_about(host)}")
        out.line(f"home    {one_line(home)}")
        if queue is not None:
            out.line("queue   " + ", ".join(f"{queue[key]:,} {key}" for key in SHOWN))
        if paused:
            out.line("paused  " + ", ".join(map(one_line, paused)))
    return exits.OK if state == "up" else exits.FAILED


def _about(host: dict[str, Any] | None) -> str:
    if host is None:
        return ""
    version = one_line(str(host["version"]))
    older = "" if version == __version__ else f", this command is {__version__}"
    return f"  (process {host['pid']}, version {version}{older}, for {duration(host['uptime_ms'])})"
