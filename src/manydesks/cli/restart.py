"""`manydesks restart`: closes the office and opens it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from manydesks.cli.closing import close_office
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.opening import READY_SECONDS, open_in_background, wait_for_office
from manydesks.cli.seconds import timeout_option
from manydesks.cli.service import find
from manydesks.domain.errors import OfficeError

if TYPE_CHECKING:
    from manydesks.office.service.base import Service


@click.command(cls=Command)
@timeout_option(default=30, help="How long to wait for its end.")
@pass_invocation
def restart(invocation: Invocation, timeout: float) -> None:
    """Close the office, and open it again in the background.

    What runs is let finish, as by `manydesks down`. The new office is in the background, also if the old one was in the
    foreground of a terminal; one that is a service stays one. Without an office running, one is opened. Settings that
    are not valid are refused first, so that they cost no office.
    """
    from manydesks.office.valid import valid_settings

    valid_settings(invocation.home, invocation.environ)
    out = invocation.out
    service = _service(invocation)
    if service is not None:
        service.restart()
        pid = wait_for_office(invocation, READY_SECONDS)["pid"]
    else:
        close_office(invocation, timeout)
        pid = open_in_background(invocation).pid
    if out.json:
        out.value({"pid": pid, "service": service.name if service is not None else None})
    else:
        out.line(f"The office is up (process {pid}).")


def _service(invocation: Invocation) -> Service | None:
    """The service that the office is; None: it is none, or not now."""
    try:
        service = find(invocation)
    except OfficeError:  # nothing manages services here
        return None
    # the file first: asking a manager takes a moment
    return service if service.file.exists() and service.standing().active else None
