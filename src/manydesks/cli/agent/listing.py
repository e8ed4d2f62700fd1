"""`manydesks agent list` and `show`."""

from __future__ import annotations

import json

import click

from manydesks.cli import complete
from manydesks.cli.caps import sentence, today
from manydesks.cli.command import Command, pass_invocation
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


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.agents)
@pass_invocation
def show(invocation: Invocation, id: str) -> None:
    """Show one agent: what drives it, what holds it, what it has to do."""
    from manydesks.store.directory import unknown_agent

    agents, out = {row["id"]: row for row in invocation.reader.agents()}, invocation.out
    if id not in agents:
        raise unknown_agent(id, agents)
    found = {**agents[id], "caps": [line for line in today(invocation) if line["agent"] == id]}
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
        "runs": f"{found['concurrency']} at one time",
        "teams": ", ".join(found["teams"]) or "none",
        "may reach": ", ".join(["its team mates" if found["teams"] else "whoever is in no team", *found["reaches"]]),
        "workspace": found["workspace"],
        "manual": _manual(invocation, id),
        "today": "; ".join(map(sentence, found["caps"])) or "no cap",
        "state": f"{state}, {found['pending']} pending, {found['processing']} processing",
    }
    if found.get("pauseReason"):
        lines["paused by"] = f"a budget: {found['pauseReason']}"
    for word, value in lines.items():
        out.line(f"{word + ':':<11}{one_line(str(value))}")


@click.command("list", cls=Command)
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
                "over budget" if row.get("pauseReason") else "paused" if row["paused"] else "active",
                row["pending"],
                row["processing"],
            )
            for row in agents
        ),
    )


def _manual(invocation: Invocation, id: str) -> str:
    """Whether the office keeps the agent's AGENTS.md up to date."""
    from manydesks.domain.errors import BadInput
    from manydesks.office.workspace.manual import look

    try:
        return f"AGENTS.md, {look(invocation.home.workspace(id)).value}"
    except (BadInput, OSError) as error:
        return f"AGENTS.md cannot be read: {error}"
