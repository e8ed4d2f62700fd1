"""`manydesks queue pause` and `resume`: whether an agent, or anybody, begins runs."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.text import one_line
from manydesks.domain.errors import BadInput


@click.command(cls=Command)
@click.argument("agent", required=False, shell_complete=complete.agents)
@click.option("--all", "everybody", is_flag=True, help="The whole office.")
@file_options
@pass_invocation
def pause(invocation: Invocation, agent: str | None, everybody: bool, file: Path | None, queue: str | None) -> None:
    """Let an agent, or with --all nobody, begin more runs; of a file, hand out nothing.

    What is under way goes on to its end; what comes waits. Other agents do not notice. It lasts, also over a restart,
    until somebody resumes it.
    """
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        if everybody:
            raise BadInput("--all is for the office; a queue of a file is named by --queue.")
        jobs.pause(invocation, file, queue, paused=True)
        return
    out = invocation.out
    if _is_office(agent, everybody):
        result = invocation.door.ask("pause_office")
        already = "" if result["changed"] else " already"
        if out.json:
            out.value(result)
        else:
            out.line(f"The office is paused{already}; nothing begins until `manydesks queue resume --all`.")
        return
    result = invocation.door.ask("pause", id=agent)
    if out.json:
        out.value(result)
        return
    already = "" if result["changed"] else " already"
    out.line(
        f"{one_line(str(agent))} is paused{already}; its messages wait until "
        f"`manydesks queue resume {one_line(str(agent))}`."
    )


@click.command(cls=Command)
@click.argument("agent", required=False, shell_complete=complete.agents)
@click.option("--all", "everybody", is_flag=True, help="The whole office; agents paused by themselves stay so.")
@file_options
@pass_invocation
def resume(invocation: Invocation, agent: str | None, everybody: bool, file: Path | None, queue: str | None) -> None:
    """Let a paused agent, the office, or a queue of a file, work again."""
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        if everybody:
            raise BadInput("--all is for the office; a queue of a file is named by --queue.")
        jobs.pause(invocation, file, queue, paused=False)
        return
    out = invocation.out
    office = _is_office(agent, everybody)
    result = invocation.door.ask("resume_office") if office else invocation.door.ask("resume", id=agent)
    if out.json:
        out.value(result)
        return
    who = "The office" if office else one_line(str(agent))
    out.line(f"{who} {'works again' if result['changed'] else 'was not paused'}.")


def _is_office(agent: str | None, everybody: bool) -> bool:
    """Whether the whole office is meant, and not an agent."""
    if everybody and agent is not None:
        raise BadInput("Say one agent, or --all for the whole office, not both.")
    if agent is None and not everybody:
        raise BadInput("Say which agent, --all for the whole office, or which queue with --file.")
    return everybody
