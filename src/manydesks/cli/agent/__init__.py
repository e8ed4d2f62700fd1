"""`manydesks agent`: who works in the office."""

from __future__ import annotations

import click

from manydesks.cli.agent.cards import add, edit
from manydesks.cli.agent.listing import list_agents, show
from manydesks.cli.agent.moves import pause, remove, reset, resume
from manydesks.cli.command import Group


@click.group(cls=Group)
def agent() -> None:
    """Add, show, change and remove agents."""


for command in (add, list_agents, show, edit, remove, reset, pause, resume):
    agent.add_command(command)
