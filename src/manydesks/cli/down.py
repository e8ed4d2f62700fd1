"""`manydesks down`: closes the office."""

from __future__ import annotations

import click

from manydesks.cli.closing import close_office
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.seconds import timeout_option


@click.command(cls=Command)
@timeout_option(default=30, help="How long to wait for its end.")
@pass_invocation
def down(invocation: Invocation, timeout: float) -> None:
    """Close the office, letting running work finish.

    What is not finished in time is taken up again by the next office. Closing an office that does not run is no error.
    """
    out = invocation.out
    stopped = close_office(invocation, timeout)
    if out.json:
        out.value({"stopped": stopped})
    elif stopped:
        out.line("The office is down.")
    else:
        out.note("No office was running.")
