"""`manydesks queue`: what waits, and what died."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.body import read_body
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.quantity import moment
from manydesks.cli.text import one_line

DEAD_COLUMNS = (
    Column("id"),
    Column("agent"),
    Column("from"),
    Column("died"),
    Column("attempts", right=True),
    Column("reason", flexible=True),
    Column("text", flexible=True),
)


@click.group(cls=Group)
def queue() -> None:
    """Look into the queue, and deal with dead letters."""


@queue.command()
@pass_invocation
def status(invocation: Invocation) -> None:
    """Count the messages of each state."""
    counts, out = invocation.reader.queue_status(), invocation.out
    if out.json:
        out.value(counts)
        return
    out.table((Column("state"), Column("messages", right=True)), counts.items())


@queue.command()
@click.option("--agent", metavar="AGENT", help="Only those of one agent.")
@pass_invocation
def dead(invocation: Invocation, agent: str | None) -> None:
    """List the messages that failed for good."""
    letters, out = invocation.reader.dead(agent), invocation.out
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


@queue.command()
@click.argument("id")
@click.option("--message", "text", metavar="TEXT", help="Change its text first; - reads standard input.")
@pass_invocation
def retry(invocation: Invocation, id: str, text: str | None) -> None:
    """Give a dead message new attempts."""
    body = None if text is None else read_body(text)
    result, out = invocation.door.ask("retry", id=id, text=body), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} is pending again.")


@queue.command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def drop(invocation: Invocation, id: str, yes: bool) -> int:
    """Give up a dead message; it ends as cancelled."""
    if not consent(invocation, f"Drop the message {one_line(id)}?", yes=yes):
        return exits.FAILED
    result, out = invocation.door.ask("drop", id=id), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} dropped.")
    return exits.OK
