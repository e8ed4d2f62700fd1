"""Processes that belong together, as `/proc` shows them: a process's descendants, what they use, how to end them all.

Standard library only. Where there is no `/proc` every list is empty, and only process groups are left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from manydesks.desk.sandboxes.limits import Reading

PROC = Path("/proc")
#: the variable that says which desk a process belongs to
MARK = "MANYDESKS_DESK"
#: a killed process that waits for the disk may take a while to be gone
END_SECONDS = 10.0

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(pid: int) -> set[int]:
    """Its children, theirs, and so on, at this moment; zombies count as ended."""
    children: dict[int, list[int]] = {}
    for child, fields in _all():
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(child)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        fresh = set(children.get(waiting.pop(), ())) - found
        found |= fresh
        waiting += fresh
    return found


def children(pid: int) -> set[int]:
    """Those that live now."""
    return {child for child, fields in _all() if fields[0] != "Z" and int(fields[1]) == pid}


def of_session(leader: int) -> set[int]:
    """Those that live now of the session that this process began, whatever groups they have made; it may have ended."""
    return {pid for pid, fields in _all() if fields[0] != "Z" and int(fields[3]) == leader}


def marked(mark: str, variable: str = MARK) -> set[int]:
    """Processes of this desk by the variable that they were started with, wherever in the tree they are now.

    Not promised: one that cleared its environment. A trailing `*` finds every desk whose mark begins so.
    """
    wanted = f"{variable}={mark}".encode()
    found: set[int] = set()
    for pid, fields in _all():
        if fields[0] == "Z":
            continue
        with contextlib.suppress(OSError):  # another user's, or ended
            for entry in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                if entry == wanted or (wanted.endswith(b"*") and entry.startswith(wanted[:-1])):
                    found.add(pid)
    return found - {os.getpid()}


def read(pids: Iterable[int]) -> Reading:
    """What these processes use; those that have ended count nothing."""
    memory = tasks = ticks = 0
    for pid in pids:
        fields = _fields(pid)
        if fields is None:
            continue
        tasks += int(fields[17])
        ticks += int(fields[11]) + int(fields[12])
        memory += _memory(pid, int(fields[21]) * _PAGE)
    return Reading(memory_bytes=memory, tasks=tasks, cpu_seconds=ticks / _TICK)


def send(pid: int, number: int) -> None:
    """A signal for a process that may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def end(find: Callable[[], set[int]]) -> bool:
    """Kill whatever `find` names until it names nothing; False if something is left after `END_SECONDS`.

    All are stopped before the first is killed, so that a crowd that forks cannot outrun the killing. Blocks.
    """
    deadline = time.monotonic() + END_SECONDS
    stopped: set[int] = set()
    while fresh := find() - stopped:
        for pid in fresh:
            send(pid, signal.SIGSTOP)
        stopped |= fresh
        if time.monotonic() > deadline:
            break
    while left := find():
        for pid in left:
            send(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _all() -> Iterator[tuple[int, list[str]]]:
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(PROC):  # noqa: PTH208 - thousands of names, and only their text is wanted
            if name.isdecimal() and (fields := _fields(int(name))) is not None:
                yield int(name), fields


def _fields(pid: int) -> list[str] | None:
    """What follows the name in `stat`: state, parent, …; the name may hold anything, also brackets and blanks."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _memory(pid: int, resident: int) -> int:
    """Its part of what is in memory and in swap; all that is resident where the kernel does not tell parts."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # ended, not ours to look into, or a kernel without it
        return resident
    parts = [int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss:", "SwapPss:"))]
    return sum(parts) if parts else resident
