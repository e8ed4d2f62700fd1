"""Asking before something is taken away."""

from __future__ import annotations

import click

from manydesks.cli.invocation import Invocation


def consent(invocation: Invocation, question: str, *, yes: bool) -> bool:
    """True for `--yes` or a yes at the terminal. Without a terminal nobody can be asked, so `--yes` must be given."""
    if yes:
        return True
    if not invocation.interactive():
        raise click.UsageError("There is no terminal to ask at; give --yes if you mean it.")
    if click.confirm(question, err=True):
        return True
    invocation.out.note("Nothing was changed.")
    return False
