"""`manydesks queue cancel`: a message, a run, a lane, a trace, an agent's work or everything shall not go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from manydesks.cli import complete, exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.quantity import count
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.text import one_line
from manydesks.domain.errors import BadInput


@click.command(cls=Command)
@click.argument("id", required=False, shell_complete=complete.messages)
@click.option(
    "--agent", metavar="AGENT", shell_complete=complete.agents, help="Everything of this agent that has not ended."
)
@click.option("--all", "everything", is_flag=True, help="Everything that has not ended.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@file_options
@pass_invocation
def cancel(
    invocation: Invocation,
    id: str | None,
    agent: str | None,
    everything: bool,
    yes: bool,
    file: Path | None,
    queue: str | None,
) -> int:
    """Stop what waits, is held or runs.

    ID is that of a message, a run, a session (its whole lane) or a trace. What has not begun never will, and whoever
    stands behind it moves up. A run under way is ended in good order, and killed if it does not listen; other messages
    of it go back to their places. What was sent before stays sent; answers that nobody has seen are withdrawn. A dead
    message is dropped instead. While the office is closed, only what waits can be cancelled.
    """
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        if id is None or everything:
            raise BadInput("Of a file, one job is cancelled at a time: give its number.")
        jobs.cancel(invocation, file, queue, id)
        return exits.OK
    if sum((id is not None, agent is not None, everything)) != 1:
        raise BadInput("Say what to cancel: one ID, --agent AGENT, or --all.")
    if id is None:
        whose = f"of {one_line(agent)}" if agent is not None else "of all agents"
        if not consent(invocation, f"Cancel every message {whose} that waits, is held or runs?", yes=yes):
            return exits.FAILED
    done = _ask(invocation, id=id, agent=agent, everything=everything)
    out = invocation.out
    if out.json:
        out.value({"id": id, "agent": agent, **done})
    else:
        out.line(_said(id, done))
    if done["left"]:
        n = count(done["left"], "message")
        out.note(
            f"{n} ran when the office ended, and only an open office ends a run: `manydesks up`, then cancel again."
        )
        return exits.FAILED
    return exits.OK


def _ask(invocation: Invocation, **what: Any) -> dict[str, int]:
    """Step by step, so that no answer takes long, until nothing is left."""
    total = {"cancelled": 0, "stopped": 0, "left": 0}
    while True:
        step = invocation.door.ask("cancel", **what)
        total = {
            "cancelled": total["cancelled"] + step["cancelled"],
            "stopped": total["stopped"] + step["stopped"],
            "left": step["left"],
        }
        if not step["more"]:
            return total


def _said(id: str | None, done: dict[str, int]) -> str:
    if not done["cancelled"]:
        return (
            f"{one_line(id)}: there was nothing left to cancel." if id is not None else "There was nothing to cancel."
        )
    ending = f"; {count(done['stopped'], 'run')} told to end" if done["stopped"] else ""
    return f"{count(done['cancelled'], 'message')} cancelled{ending}."
