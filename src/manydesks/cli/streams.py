"""The three streams of a process whose caller has closed some of them (`>&-`)."""

from __future__ import annotations

import os
import sys


def mend_streams() -> None:
    """Give a closed stream's descriptor a place of its own, or the next file that is opened would get its number.

    Writing to a closed stdout fails as on a full disk, with one sentence; what is said to a closed stderr is lost.
    A closed stdin stays None: whoever reads it says so.
    """
    if sys.stdin is None:
        _occupy(0, os.O_RDONLY)
    if sys.stdout is None:
        _occupy(1, os.O_RDONLY)  # not for writing: what is printed must not seem to have arrived
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # the process's own, to its end
    if sys.stderr is None:
        _occupy(2, os.O_WRONLY)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _occupy(descriptor: int, flags: int) -> None:
    nothing = os.open(os.devnull, flags)
    if nothing != descriptor:
        os.dup2(nothing, descriptor)
        os.close(nothing)
