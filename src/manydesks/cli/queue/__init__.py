"""`manydesks queue`: what waits, what is held, what died, and what may go."""

from __future__ import annotations

import click

from manydesks.cli.command import Group
from manydesks.cli.queue.agents import pause, resume
from manydesks.cli.queue.cancel import cancel
from manydesks.cli.queue.letters import dead, held
from manydesks.cli.queue.listing import list_messages
from manydesks.cli.queue.moves import drop, release, retry
from manydesks.cli.queue.prune import prune
from manydesks.cli.queue.show import show
from manydesks.cli.queue.status import status


@click.group(cls=Group)
def queue() -> None:
    """Look into the queue, and deal with what is in it."""


for command in (status, list_messages, show, dead, held, retry, release, drop, cancel, pause, resume, prune):
    queue.add_command(command)
