"""A command with all processes it starts: how long it took, what CPU and how much memory. Linux only."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: often enough that what a process did after the last look is next to nothing
LOOK_SECONDS = 0.25
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What was seen of a command."""

    wall: float
    #: seconds, of every process that was seen
    cpu: float
    #: the most that all of them held at once; what two share counts twice
    bytes: int
    stdout: str


class Session:
    """The processes of one session of the kernel, those that have ended too."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._spent: dict[int, float] = {}
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def cpu(self) -> float:
        self._look()
        return sum(self._spent.values())

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        held = 0
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
            if (seen := _of(pid, self._leader)) is not None:
                self._spent[pid] = max(seen[0], self._spent.get(pid, 0.0))
                held += seen[1]
        self.bytes = max(self.bytes, held)


def observe(command: Sequence[str | Path], *, seconds: float = 3600) -> Observed:
    """Runs it to its end; raises if it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    session = Session(process.pid)
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except BaseException:
        process.kill()
        raise
    finally:
        session.close()
    wall = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {stderr or stdout}")
    return Observed(wall=wall, cpu=session.cpu, bytes=session.bytes, stdout=stdout)


def _of(pid: int, leader: int) -> tuple[float, int] | None:
    """The CPU and the memory of a process, if it is of the session."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if int(words[3]) != leader:
        return None
    return (int(words[11]) + int(words[12])) / TICKS, int(words[21]) * PAGE
