"""`manydesks agent`: who works in the office."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.text import one_line

COLUMNS = (
    Column("id"),
    Column("name", flexible=True),
    Column("provider"),
    Column("model", flexible=True),
    Column("sandbox"),
    Column("state"),
    Column("pending", right=True),
    Column("processing", right=True),
)


@click.group(cls=Group)
def agent() -> None:
    """Add, list and remove agents."""


@agent.command()
@click.argument("id")
@click.option("--name", help="What people call it  [default: its id]")
@click.option("--provider", help="What drives it  [default: rehearsal]")
@click.option("--model", help="The provider's model  [default: the provider's]")
@pass_invocation
def add(invocation: Invocation, id: str, name: str | None, provider: str | None, model: str | None) -> None:
    """Add an agent, with a workspace of its own."""
    made = invocation.door.ask("agent_add", id=id, name=name, provider=provider, model=model)
    out = invocation.out
    if out.json:
        out.value(made)
        return
    driven = " ".join(one_line(part) for part in (made["provider"], made.get("model")) if part)
    out.line(f"Agent {one_line(made['id'])} added ({driven}); its workspace is {one_line(str(made['workspace']))}.")


@agent.command("list")
@pass_invocation
def list_agents(invocation: Invocation) -> None:
    """List the agents and what they have to do."""
    agents, out = invocation.reader.agents(), invocation.out
    if out.json:
        out.value(agents)
        return
    if not agents:
        out.note("There are no agents yet; `manydesks agent add ID` adds one.")
        return
    out.table(
        COLUMNS,
        (
            (
                *(row[key] for key in ("id", "name", "provider", "model", "sandbox")),
                "paused" if row["paused"] else "active",
                row["pending"],
                row["processing"],
            )
            for row in agents
        ),
    )


@agent.command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(invocation: Invocation, id: str, yes: bool) -> int:
    """Remove an agent."""
    if not consent(invocation, f"Remove the agent {one_line(id)}?", yes=yes):
        return exits.FAILED
    removed, out = invocation.door.ask("agent_remove", id=id), invocation.out
    if out.json:
        out.value(removed)
    else:
        out.line(f"Agent {one_line(id)} removed.")
    return exits.OK
