"""`manydesks run`: what an agent did, step by step."""

from __future__ import annotations

import click

from manydesks.cli import complete
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import dumps


@click.group(cls=Group)
def run() -> None:
    """Take out what an agent did in a run."""


@run.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete.messages)
@pass_invocation
def export(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """Print runs as a recording, which the provider rehearsal plays back.

    ID is a run's or a message's, which stands for its last run; several follow one another. A line is a JSON object: a
    text, a tool call or its result, usage, an answer or an error. With --json it is one list of them.
    """
    from manydesks.office.tapes import tape_of

    lines = [line for id in ids for line in tape_of(invocation.home, invocation.reader, id)]
    out = invocation.out
    if out.json:
        out.value(lines)
        return
    for line in lines:
        out.line(dumps(line))
