"""Starting the office in the background, and knowing that it came up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from manydesks.domain.clock import Clock
from manydesks.domain.errors import OfficeError

#: of a failed start, what is shown of the log
LAST_LINES = 10
LAST_BYTES = 16 * 1024
#: how often readiness is asked for; the child's end is noticed at once
ASK_SECONDS = 0.1


def start(command: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
    """Start the command as its own session: it outlives this terminal, and a Ctrl-C here does not reach it.

    Both its streams are appended to the log, which only the owner may read.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True
        )
    finally:
        os.close(descriptor)


def wait_until_ready(
    child: subprocess.Popen[bytes], *, ready: Callable[[], bool], log: Path, clock: Clock, limit: float
) -> None:
    """Return once `ready()`; raise OfficeError if the child ends first or the limit (seconds) is over.

    A child that is only late is left running: it may be recovering a large store, and ending it would start that anew.
    """
    deadline = clock.monotonic() + round(limit * 1000)
    while not ready():
        if clock.monotonic() >= deadline:
            late = f"it was started (process {child.pid}) but does not answer after {limit:g} s; its log is {log}."
            raise OfficeError(reason=late)
        try:
            code = child.wait(ASK_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise OfficeError(reason=f"it {how} before it answered; its log is {log}.")


def tail(log: Path, *, since: int) -> list[str]:
    """The last lines that were written after the log had that size, from its last bytes only: it may be large."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since, size - LAST_BYTES))
        return file.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
