"""`manydesks queue`: what waits, what is held, and what died."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from manydesks.cli import exits
from manydesks.cli.body import read_body
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.quantity import moment
from manydesks.cli.text import one_line
from manydesks.domain.errors import UnknownAgent

DEAD_COLUMNS = (
    Column("id"),
    Column("agent"),
    Column("from"),
    Column("died"),
    Column("attempts", right=True),
    Column("reason", flexible=True),
    Column("text", flexible=True),
)

HELD_COLUMNS = (
    Column("id"),
    Column("agent"),
    Column("from"),
    Column("since"),
    Column("reason"),
    Column("detail", flexible=True),
    Column("text", flexible=True),
)


@click.group(cls=Group)
def queue() -> None:
    """Look into the queue, and deal with what is dead or held."""


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
    _refuse_unknown(invocation, agent, letters)
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
@click.option("--agent", metavar="AGENT", help="Only those of one agent.")
@pass_invocation
def held(invocation: Invocation, agent: str | None) -> None:
    """List the messages that wait for somebody to let them go on."""
    letters, out = invocation.reader.held(agent), invocation.out
    _refuse_unknown(invocation, agent, letters)
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


def _refuse_unknown(invocation: Invocation, agent: str | None, letters: Sequence[dict[str, Any]]) -> None:
    """A name that nobody has is a mistake, not an empty list; one who left may still have letters."""
    if agent is None or letters:
        return
    known = [row["id"] for row in invocation.reader.agents()]
    if agent in known:
        return
    from difflib import get_close_matches

    near = get_close_matches(agent, known, n=1)
    raise UnknownAgent(agent=agent, nearest=f" (did you mean '{near[0]}'?)" if near else "")


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
@pass_invocation
def release(invocation: Invocation, id: str) -> None:
    """Let a held message go on."""
    result, out = invocation.door.ask("release", id=id), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} is {one_line(result['status'])} now.")


@queue.command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def drop(invocation: Invocation, id: str, yes: bool) -> int:
    """Give up a dead or held message; it ends as cancelled."""
    if not consent(invocation, f"Drop the message {one_line(id)}?", yes=yes):
        return exits.FAILED
    result, out = invocation.door.ask("drop", id=id), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} dropped.")
    return exits.OK
