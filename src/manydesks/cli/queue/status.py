"""`manydesks queue status`: how many messages are in which state."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.queue.whose import agent_option, refuse_unknown
from manydesks.cli.text import one_line


@click.command(cls=Command)
@agent_option
@file_options
@pass_invocation
def status(invocation: Invocation, agent: str | None, file: Path | None, queue: str | None) -> None:
    """Count the messages of each state.

    The numbers are kept as messages move, so asking costs the same however many there are. They count what is kept:
    messages that were pruned are in the lake.
    """
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        jobs.status(invocation, file, queue)
        return
    counts, out = invocation.reader.queue_status(agent), invocation.out
    refuse_unknown(invocation, agent, [n for n in counts.values() if n])
    paused = [row["id"] for row in invocation.reader.agents() if row["paused"] and agent in (None, row["id"])]
    if out.json:
        out.value({**counts, "paused": paused, "officePaused": invocation.reader.office_paused()})
        return
    out.table((Column("state"), Column("messages", right=True)), counts.items())
    if invocation.reader.office_paused():
        out.line("The office is paused: nothing begins until `manydesks queue resume --all`.")
    if paused:
        out.line(f"paused: {', '.join(map(one_line, paused))}")
