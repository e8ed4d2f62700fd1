"""`manydesks token`: what a program shows to be let in."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation


@click.group(cls=Group)
def token() -> None:
    """The token by which programs are let in."""


@token.command()
@pass_invocation
def show(invocation: Invocation) -> None:
    """Print the token; it is made when there is none yet.

    Whoever has it can do all that you can do with this office. It is kept in api.token in the office's folder, readable
    by you alone; commands and `manydesks.client` read it there by themselves.
    """
    from manydesks.settings.token import token_of

    found, out = token_of(invocation.home), invocation.out
    if out.json:
        out.value({"token": found})
    else:
        out.line(found)


@token.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def rotate(invocation: Invocation, yes: bool) -> int:
    """Make a new token; the old one counts no more, also in an open office."""
    from manydesks.settings.token import rotate_token

    question = "Make a new token? Programs that have the old one are let in no more."
    if not consent(invocation, question, yes=yes):
        return exits.FAILED
    rotate_token(invocation.home)
    out = invocation.out
    if out.json:
        out.value({"rotated": True})
    else:
        out.line("There is a new token; `manydesks token show` prints it.")
    return exits.OK
