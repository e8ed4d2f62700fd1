"""Closing the office and waiting for its end: for `down` and `restart`."""

from __future__ import annotations

from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import NotAnswering, NotRunning, OfficeError


def close_office(invocation: Invocation, timeout: float) -> bool:
    """False: none was running. Raises OfficeError if it still runs when the time (seconds) is over."""
    try:
        if invocation.door.host() is None:
            return False
    except NotAnswering:
        pass  # a host that hangs can still be stopped
    try:
        ended = invocation.door.stop(timeout)
    except NotRunning:  # it ended between the two questions
        ended = True
    if not ended:
        raise OfficeError(f"The office on {invocation.home.path} has not ended within {timeout:g} s; try again.")
    return True
