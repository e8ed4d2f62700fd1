"""`manydesks team`: agents with a leader and a room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from manydesks.cli import complete, exits
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.names import names
from manydesks.cli.output import Column
from manydesks.cli.room import room
from manydesks.cli.text import one_line

COLUMNS = (Column("id"), Column("name", flexible=True), Column("leader"), Column("members", flexible=True))


@click.group(cls=Group)
def team() -> None:
    """Put agents into teams, and look into their rooms."""


@team.command()
@click.argument("id")
@click.option(
    "--leader", required=True, metavar="AGENT", shell_complete=complete.agents, help="Who is reached by @ID, and leads."
)
@click.option("--member", "members", multiple=True, metavar="AGENT,…", help="Who else is in it; repeatable.")
@click.option("--name", help="What people call it  [default: its id]")
@pass_invocation
def add(invocation: Invocation, id: str, leader: str, members: tuple[str, ...], name: str | None) -> None:
    """Make a team of agents.

    Its members may address each other and post in its room. Those outside may no longer be addressed by them, nor
    address them, unless `manydesks agent edit --may-reach` permits it.
    """
    made = invocation.door.ask("team_add", id=id, leader=leader, members=names(*members), name=name)
    out = invocation.out
    for notice in made.get("notices", ()):
        out.note(notice)
    if out.json:
        out.value(made)
    else:
        out.line(_line(made))


@team.command("list")
@pass_invocation
def list_teams(invocation: Invocation) -> None:
    """List the teams and who is in them."""
    teams, out = invocation.reader.teams(), invocation.out
    if out.json:
        out.value(teams)
        return
    if not teams:
        out.note("There are no teams yet; `manydesks team add ID --leader AGENT` makes one.")
        return
    out.table(COLUMNS, ((row["id"], row["name"], row["leader"], ", ".join(row["members"])) for row in teams))


@team.command()
@click.argument("id", shell_complete=complete.teams)
@pass_invocation
def show(invocation: Invocation, id: str) -> None:
    """Show one team: who leads it, who is in it, what each has to do."""
    from manydesks.store.directory import unknown_team

    teams, out = {row["id"]: row for row in invocation.reader.teams()}, invocation.out
    if id not in teams:
        raise unknown_team(id, teams)
    found = teams[id]
    if out.json:
        out.value(found)
        return
    out.line(f"team:    {one_line(found['id'])}")
    out.line(f"name:    {one_line(found['name'])}")
    agents = {row["id"]: row for row in invocation.reader.agents()}
    for member in (found["leader"], *(agent for agent in found["members"] if agent != found["leader"])):
        card, title = agents.get(member), "leader:" if member == found["leader"] else "member:"
        doing = ""
        if card is not None:
            state = "paused" if card["paused"] else "active"
            doing = f" ({card['name']}), {state}, {card['pending']} pending, {card['processing']} processing"
        out.line(f"{title:<9}{one_line(member + doing)}")


@team.command()
@click.argument("id", shell_complete=complete.teams)
@click.option("--name", help="What people call it")
@click.option(
    "--leader", metavar="AGENT", shell_complete=complete.agents, help="Who leads it from now on; becomes a member."
)
@click.option("--add", "joining", multiple=True, metavar="AGENT,…", help="Who joins; repeatable.")
@click.option("--remove", "leaving", multiple=True, metavar="AGENT,…", help="Who leaves; repeatable.")
@pass_invocation
def edit(
    invocation: Invocation,
    id: str,
    name: str | None,
    leader: str | None,
    joining: tuple[str, ...],
    leaving: tuple[str, ...],
) -> None:
    """Change a team: its name, its leader, its members."""
    if name is None and leader is None and not joining and not leaving:
        raise click.UsageError("Say what is to change; `manydesks team edit --help` shows what can.")
    done = invocation.door.ask(
        "team_edit", id=id, name=name, leader=leader, add=names(*joining), remove=names(*leaving)
    )
    out = invocation.out
    for notice in done.get("notices", ()):
        out.note(notice)
    if out.json:
        out.value(done)
    else:
        out.line(_line(done))


@team.command()
@click.argument("id", shell_complete=complete.teams)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(invocation: Invocation, id: str, yes: bool) -> int:
    """Remove a team.

    Its agents stay. What was posted in its room stays too, and what is on its way to them still arrives. Members that
    are in no other team may address everybody who is in none.
    """
    if not consent(invocation, f"Remove the team {one_line(id)}?", yes=yes):
        return exits.FAILED
    removed, out = invocation.door.ask("team_remove", id=id), invocation.out
    for notice in removed.get("notices", ()):
        out.note(notice)
    if out.json:
        out.value(removed)
    else:
        out.line(f"Team {one_line(id)} removed; its agents stay.")
    return exits.OK


def _line(team: Mapping[str, Any]) -> str:
    others = [one_line(member) for member in team["members"] if member != team["leader"]]
    return f"Team {one_line(team['id'])}: {one_line(team['leader'])} leads {', '.join(others) or 'nobody yet'}."


team.add_command(room)
