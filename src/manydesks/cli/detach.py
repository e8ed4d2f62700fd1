"""Starting the office in the background, and knowing that it came up."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from manydesks.domain.clock import Clock
from manydesks.domain.errors import OfficeError

#: of a failed start, what is read of the log
LAST_BYTES = 16 * 1024
#: how a command begins the sentence that says why it failed
PREFIX = "manydesks: "
#: how often readiness is asked for; the child's end is noticed at once
ASK_SECONDS = 0.1


@contextmanager
def sole_start(log: Path) -> Iterator[int]:
    """The log's size, with nobody else starting an office on this log until the end: what is added is our child's.

    Another start is waited for, which takes no longer than its own limit. Only starts are kept apart: an office that
    is up writes to the log, and one in the foreground may come up at any time.
    """
    descriptor = _open(log)  # closed in every child, which would keep the lock for its life
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def start(command: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
    """Start the command as its own session: it outlives this terminal, and a Ctrl-C here does not reach it.

    Both its streams are appended to the log, which only the owner may read.
    """
    descriptor = _open(log)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True
        )
    finally:
        os.close(descriptor)


def wait_until_ready(
    child: subprocess.Popen[bytes], *, ready: Callable[[], bool], log: Path, since: int, clock: Clock, limit: float
) -> None:
    """Return once `ready()`; raise OfficeError if the child ends first or the limit (seconds) is over.

    The error of a child that ended is what the child gave as its reason in the log, past its first `since` bytes.
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
        if code > 0 and (sentence := last_sentence(log, since=since)) is not None:
            error = OfficeError(sentence)
            error.exit_code = code
            raise error
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise OfficeError(reason=f"it {how} before it answered; its log is {log}.")


def last_sentence(log: Path, *, since: int) -> str | None:
    """The last sentence a command said after the log had that size, from its last bytes only: it may be large.

    A line without an end does not count: the disk was full before the sentence was over.
    """
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since, size - LAST_BYTES))
        *lines, _ = file.read().decode("utf-8", "replace").split("\n")
    said = [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)]
    return said[-1] if said else None


def _open(log: Path) -> int:
    try:
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OfficeError(reason=f"its log {log} cannot be written: {error.strerror}.") from error
