"""Closing the office and waiting for its end: for `down` and `restart`."""

from __future__ import annotations

from manydesks.cli.invocation import Invocation
from manydesks.domain.errors import NotRunning, OfficeError


def close_office(invocation: Invocation, timeout: float) -> bool:
    """False: none was running. Raises OfficeError if it still runs when the time (seconds) is over."""
    try:
        ended = invocation.door.stop(timeout)
    except NotRunning:
        return False
    if not ended:
        raise OfficeError(
            f"The office on {invocation.home.path} has not ended within {timeout:g} s; it was told to, and finishes "
            "what runs. Try again to end it without waiting for that."
        )
    return True
