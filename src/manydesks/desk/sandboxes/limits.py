"""How much one desk may use, who holds it to that, and the decision to end a desk that uses more."""

from __future__ import annotations

import resource
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """For a desk's whole tree of processes, where nothing else is said."""

    #: memory that its processes hold together
    memory_bytes: int = 4096 * MIB
    #: processes and threads together, as the kernel counts them
    tasks: int = 1024
    #: each of its private `/tmp` and `/dev/shm`, which are memory too; `none` has no private ones
    tmp_bytes: int = 512 * MIB
    #: open files of one process
    open_files: int = 4096
    #: the largest file that one process may write
    file_bytes: int = 4096 * MIB


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a desk's tree uses at one moment."""

    #: shared pages are counted in parts, so that forks of one process do not count twice
    memory_bytes: int
    #: processes and threads
    tasks: int
    #: of those that live now; with a cgroup also of those that have ended
    cpu_seconds: float


def judge(reading: Reading, limits: Limits) -> str | None:
    """Why this desk has to be ended; None while it keeps within its limits.

    The host's watch: it looks every now and then, so a desk may be over its limits until the next look.
    """
    if reading.memory_bytes > limits.memory_bytes:
        used, allowed = reading.memory_bytes // MIB, limits.memory_bytes // MIB
        return f"the desk uses {used} MiB of memory; {allowed} MiB are allowed"
    if reading.tasks > limits.tasks:
        return f"the desk runs {reading.tasks} processes and threads; {limits.tasks} are allowed"
    return None


def apply(pid: int, limits: Limits, *, count_tasks: bool) -> None:
    """Give a process of ours, and what it starts from now on, the limits that the kernel keeps for each process.

    `count_tasks` only where the process has a user namespace of its own: elsewhere the kernel would count everything
    that the person runs. It counts nothing for root. Raises `ProcessLookupError` if the process has ended.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_bytes,
    }
    if count_tasks:
        wanted[resource.RLIMIT_NPROC] = limits.tasks
    for kind, most in wanted.items():
        hard = resource.prlimit(pid, kind)[1]
        kept = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (kept, kept))
