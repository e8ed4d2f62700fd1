"""`manydesks queue pause` and `resume`: whether an agent begins runs."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.text import one_line
from manydesks.domain.errors import BadInput


@click.command(cls=Command)
@click.argument("agent", required=False)
@file_options
@pass_invocation
def pause(invocation: Invocation, agent: str | None, file: Path | None, queue: str | None) -> None:
    """Let an agent begin no more runs; of a file, hand out nothing.

    What it is doing goes on to its end; what comes for it waits. Other agents do not notice.
    """
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        jobs.pause(invocation, file, queue, paused=True)
        return
    if agent is None:
        raise BadInput("Say which agent, or which queue with --file.")
    result, out = invocation.door.ask("pause", id=agent), invocation.out
    if out.json:
        out.value(result)
        return
    already = "" if result["changed"] else " already"
    out.line(
        f"{one_line(agent)} is paused{already}; its messages wait until `manydesks queue resume {one_line(agent)}`."
    )


@click.command(cls=Command)
@click.argument("agent", required=False)
@file_options
@pass_invocation
def resume(invocation: Invocation, agent: str | None, file: Path | None, queue: str | None) -> None:
    """Let a paused agent, or a queue of a file, work again."""
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        jobs.pause(invocation, file, queue, paused=False)
        return
    if agent is None:
        raise BadInput("Say which agent, or which queue with --file.")
    result, out = invocation.door.ask("resume", id=agent), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(agent)} {'works again' if result['changed'] else 'was not paused'}.")
