"""`manydesks queue retry`, `release` and `drop`: one message, moved by hand."""

from __future__ import annotations

from pathlib import Path

import click

from manydesks.cli import complete, exits
from manydesks.cli.body import read_body
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.text import one_line
from manydesks.domain.errors import BadInput


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.dead)
@click.option("--message", "text", metavar="TEXT", help="Change its text first; - reads standard input.")
@file_options
@pass_invocation
def retry(invocation: Invocation, id: str, text: str | None, file: Path | None, queue: str | None) -> None:
    """Give a dead message new attempts."""
    refuse_queue_alone(file, queue)
    if file is not None:
        if text is not None:
            raise BadInput("--message changes the text of a message; a job's body stays as it was sent.")
        jobs.retry(invocation, file, queue, id)
        return
    body = None if text is None else read_body(text)
    result, out = invocation.door.ask("retry", id=id, text=body), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} is pending again.")


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.held)
@file_options
@pass_invocation
def release(invocation: Invocation, id: str, file: Path | None, queue: str | None) -> None:
    """Let a held message go on; of a file, a delayed job at once."""
    refuse_queue_alone(file, queue)
    if file is not None:
        jobs.release(invocation, file, queue, id)
        return
    result, out = invocation.door.ask("release", id=id), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} is {one_line(result['status'])} now.")


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.stuck)
@click.option("--yes", is_flag=True, help="Do not ask.")
@file_options
@pass_invocation
def drop(invocation: Invocation, id: str, yes: bool, file: Path | None, queue: str | None) -> int:
    """Give up a dead or held message; it ends as cancelled."""
    refuse_queue_alone(file, queue)
    if not consent(invocation, f"Drop the {'job' if file else 'message'} {one_line(id)}?", yes=yes):
        return exits.FAILED
    if file is not None:
        jobs.drop(invocation, file, queue, id)
        return exits.OK
    result, out = invocation.door.ask("drop", id=id), invocation.out
    if out.json:
        out.value(result)
    else:
        out.line(f"{one_line(id)} dropped.")
    return exits.OK
