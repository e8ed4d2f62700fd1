"""`manydesks agent`: who works in the office."""

from __future__ import annotations

import json
import tomllib
from typing import Any

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
    """Add, show, list and remove agents."""


@agent.command()
@click.argument("id")
@click.option("--name", help="What people call it  [default: its id]")
@click.option("--provider", help="What drives it  [default: rehearsal]")
@click.option("--model", help="The provider's model  [default: the provider's]")
@click.option("--sandbox", help="What holds its programs  [default: the setting sandbox.kind]")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the provider; repeatable.")
@pass_invocation
def add(
    invocation: Invocation,
    id: str,
    name: str | None,
    provider: str | None,
    model: str | None,
    sandbox: str | None,
    options: tuple[str, ...],
) -> None:
    """Add an agent, with a workspace of its own."""
    given = dict(_option(text) for text in options)
    made = invocation.door.ask(
        "agent_add", id=id, name=name, provider=provider, model=model, sandbox=sandbox, options=given
    )
    out = invocation.out
    if out.json:
        out.value(made)
        return
    driven = " ".join(one_line(part) for part in (made["provider"], made.get("model")) if part)
    out.line(f"Agent {one_line(made['id'])} added ({driven}); its workspace is {one_line(str(made['workspace']))}.")


@agent.command()
@click.argument("id")
@pass_invocation
def show(invocation: Invocation, id: str) -> None:
    """Show one agent: what drives it, what holds it, what it has to do."""
    from manydesks.store.agents import unknown_agent

    agents, out = {row["id"]: row for row in invocation.reader.agents()}, invocation.out
    if id not in agents:
        raise unknown_agent(id, agents)
    found = agents[id]
    if out.json:
        out.value(found)
        return
    state = "paused" if found["paused"] else "active"
    lines = {
        "agent": found["id"],
        "name": found["name"],
        "provider": " ".join(part for part in (found["provider"], found["model"]) if part),
        "sandbox": found["sandbox"] or "as the settings say",
        "options": ", ".join(f"{key} = {json.dumps(value)}" for key, value in found["options"].items()) or "none",
        "workspace": found["workspace"],
        "state": f"{state}, {found['pending']} pending, {found['processing']} processing",
    }
    for word, value in lines.items():
        out.line(f"{word + ':':<11}{one_line(str(value))}")


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
    """Remove an agent.

    Its workspace and its history stay.
    """
    if not consent(invocation, f"Remove the agent {one_line(id)}?", yes=yes):
        return exits.FAILED
    removed, out = invocation.door.ask("agent_remove", id=id), invocation.out
    if out.json:
        out.value(removed)
    else:
        folder = invocation.home.workspace(id)
        # what it made is its owner's
        stays = f" Its workspace stays: {one_line(str(folder))}" if folder.is_dir() else ""
        out.line(f"Agent {one_line(id)} removed.{stays}")
    return exits.OK


def _option(text: str) -> tuple[str, Any]:
    """KEY=VALUE; the value as TOML if it is, else as plain text."""
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise click.UsageError(f"An option is KEY=VALUE, not '{text[:80]}'.")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value
    return key.strip(), parsed["value"] if len(parsed) == 1 else value
