from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from manydesks.desk.sandboxes.limits import Limits, Reading, apply, judge

LIMITS = Limits(memory_bytes=100 << 20, tasks=10)


@pytest.mark.parametrize(
    ("memory", "tasks", "said"),
    [
        (0, 0, None),
        (100 << 20, 10, None),
        ((100 << 20) + 1, 10, "the desk uses 100 MiB of memory; 100 MiB are allowed"),
        (200 << 20, 11, "the desk uses 200 MiB of memory; 100 MiB are allowed"),
        (1, 11, "the desk runs 11 processes and threads; 10 are allowed"),
    ],
)
def test_a_desk_is_ended_for_what_it_uses(memory: int, tasks: int, said: str | None) -> None:
    assert judge(Reading(memory_bytes=memory, tasks=tasks, cpu_seconds=9e9), LIMITS) == said


@pytest.mark.parametrize("count_tasks", [True, False])
def test_limits_of_a_process_are_lowered_and_never_raised(count_tasks: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = resource.prlimit(process.pid, resource.RLIMIT_NPROC)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (64, 64))
        apply(process.pid, Limits(open_files=4096, file_bytes=1000, tasks=7), count_tasks=count_tasks)
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (64, 64)
        assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE) == (1000, 1000)
        assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)
        assert resource.prlimit(process.pid, resource.RLIMIT_NPROC) == ((7, 7) if count_tasks else before)
        process.communicate(b"\n")


def test_a_process_that_has_ended_is_said() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        apply(process.pid, LIMITS, count_tasks=False)
