"""`manydesks queue dead` and `held`: what waits for a person."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.quantity import moment
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.queue.whose import agent_option, refuse_unknown

DEAD_COLUMNS = (
    Column("id"),
    Column("agent"),
    Column("from", flexible=True),
    Column("died"),
    Column("attempts", right=True),
    Column("reason", flexible=True),
    Column("text", flexible=True),
)

HELD_COLUMNS = (
    Column("id"),
    Column("agent"),
    Column("from", flexible=True),
    Column("since"),
    Column("reason"),
    Column("detail", flexible=True),
    Column("text", flexible=True),
)


@click.command(cls=Command)
@agent_option
@file_options
@pass_invocation
def dead(invocation: Invocation, agent: str | None, file: Path | None, queue: str | None) -> None:
    """List the messages that failed for good."""
    refuse_queue_alone(file, queue, agent)
    if file is not None:
        jobs.dead(invocation, file, queue)
        return
    letters, out = invocation.reader.dead(agent), invocation.out
    refuse_unknown(invocation, agent, letters)
    if out.json:
        out.value(letters)
        return
    if not letters:
        out.note("There are no dead letters.")
        return
    out.table(
        DEAD_COLUMNS,
        (
            (
                letter["messageId"],
                letter["agent"],
                letter["sender"],
                moment(letter["at"]),
                letter["attempts"],
                letter["reason"],
                letter["text"],
            )
            for letter in letters
        ),
    )


@click.command(cls=Command)
@agent_option
@pass_invocation
def held(invocation: Invocation, agent: str | None) -> None:
    """List the messages that wait for somebody to let them go on."""
    letters, out = invocation.reader.held(agent), invocation.out
    refuse_unknown(invocation, agent, letters)
    if out.json:
        out.value(letters)
        return
    if not letters:
        out.note("No messages are held.")
        return
    out.table(
        HELD_COLUMNS,
        (
            (
                letter["messageId"],
                letter["agent"],
                letter["sender"],
                moment(letter["at"]),
                letter["reason"],
                letter["detail"],
                letter["text"],
            )
            for letter in letters
        ),
    )
