"""`manydesks questions`: what agents want to know."""

from __future__ import annotations

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.quantity import moment

COLUMNS = (
    Column("id"),
    Column("agent"),
    Column("asked"),
    Column("question", flexible=True),
    Column("options", flexible=True),
)


@click.command(cls=Command)
@pass_invocation
def questions(invocation: Invocation) -> None:
    """List the questions of agents that wait for an answer."""
    found, out = invocation.reader.questions(), invocation.out
    if out.json:
        out.value(found)
        return
    if not found:
        out.note("No agent waits for an answer.")
        return
    out.table(
        COLUMNS,
        (
            (
                row["questionId"],
                row["agent"],
                moment(row["askedAt"]),
                ": ".join(filter(None, (row["title"], row["question"]))),
                ", ".join(f"{number} {option['label']}" for number, option in enumerate(row["options"], 1)) or None,
            )
            for row in found
        ),
    )
