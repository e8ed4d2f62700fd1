"""The console: the terminal that the office runs in, and commands that wait for an answer.

A command that waits reads the response from the store; delivery tells it, through the ledger, that it may. What is
printed here is for the person who watches the office, so a line printed twice after a crash does no harm.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Literal

from manydesks.channels.base import Receipt
from manydesks.domain.envelope import Parcel


def show(line: str) -> None:
    """Print for whoever watches the office. That nobody does any more is no failure: the answer itself is stored."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        # a terminal that cannot hold a character gets its number instead
        print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError:
        # a closed terminal, a full disk under the log: from now on nothing is printed, also at the interpreter's end
        with contextlib.suppress(OSError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)


class Console:
    name = "console"
    cut_off: Literal["resend", "ask"] = "resend"

    def __init__(self, show: Callable[[str], None] = show) -> None:
        self._show = show

    async def send(self, parcel: Parcel) -> Receipt:
        line = f"{parcel.agent} → {parcel.sender}: {parcel.text}"
        self._show("".join(c if c.isprintable() or c in "\n\t" else "�" for c in line))
        return Receipt(id=f"console:{parcel.id}")
