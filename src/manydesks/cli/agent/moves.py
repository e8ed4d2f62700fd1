"""`manydesks agent remove`, `reset`, `pause` and `resume`."""

from __future__ import annotations

import click

from manydesks.cli import complete, exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.text import one_line


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.agents)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(invocation: Invocation, id: str, yes: bool) -> int:
    """Remove an agent.

    Its workspace and its history stay.
    """
    if not consent(invocation, f"Remove the agent {one_line(id)}?", yes=yes):
        return exits.FAILED
    removed, out = invocation.door.ask("agent_remove", id=id), invocation.out
    for notice in removed.get("notices", ()):
        out.note(notice)
    if out.json:
        out.value(removed)
    else:
        folder = invocation.home.workspace(id)
        # what it made is its owner's
        stays = f" Its workspace stays: {one_line(str(folder))}" if folder.is_dir() else ""
        out.line(f"Agent {one_line(id)} removed.{stays}")
    return exits.OK


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.agents)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def reset(invocation: Invocation, id: str, yes: bool) -> int:
    """Let an agent begin its conversations anew.

    What it was told and what it answered is no longer before its eyes; its workspace, its memory and the office's
    history stay. What waits for it waits on, in order. Refused while it works.
    """
    if not consent(invocation, f"Let the agent {one_line(id)} forget its conversations?", yes=yes):
        return exits.FAILED
    done, out = invocation.door.ask("agent_reset", id=id), invocation.out
    if out.json:
        out.value(done)
        return exits.OK
    if not done["sessions"]:
        out.line(f"{one_line(id)} has not worked yet; there is nothing to forget.")
        return exits.OK
    moved = sum(session["moved"] for session in done["sessions"])
    waiting = f" {moved} {'message' if moved == 1 else 'messages'} went along." if moved else ""
    out.line(f"{one_line(id)} begins anew.{waiting}")
    return exits.OK


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.agents)
@pass_invocation
def pause(invocation: Invocation, id: str) -> None:
    """Let an agent begin no more runs.

    What it is doing goes on to its end; what comes for it waits. `manydesks queue pause` does the same.
    """
    result, out = invocation.door.ask("pause", id=id), invocation.out
    if out.json:
        out.value(result)
        return
    already = "" if result["changed"] else " already"
    out.line(f"{one_line(id)} is paused{already}; its messages wait until `manydesks agent resume {one_line(id)}`.")


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.agents)
@pass_invocation
def resume(invocation: Invocation, id: str) -> None:
    """Let a paused agent work again."""
    result, out = invocation.door.ask("resume", id=id), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} {'works again' if result['changed'] else 'was not paused'}.")
