"""A cgroup of its own for each desk, where this process was given a part of the tree to manage (`Delegate=yes`).

Only cgroup version 2: an older one has no delegation that is safe to rely on.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from manydesks.desk.sandboxes import tree
from manydesks.desk.sandboxes.limits import Limits, Reading

#: what a desk's limits need
CONTROLLERS = ("memory", "pids")
#: the leaf that the office itself moves to: a cgroup that has children may hold no processes
HOST = "office"
#: how long the kernel may take to let go of an ended desk's cgroup
REMOVE_SECONDS = 2.0

_PREFIX = "desk-"
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
#: joins before it becomes the program, so that nothing it starts can be left outside
_ENTER = 'echo $$ >"$0" && exec "$@"'


@dataclass(frozen=True, kw_only=True)
class Means:
    """Who keeps the limits of whole trees here."""

    #: the cgroup that this process may manage; None: the host's watch keeps them
    cgroup: Path | None
    #: one sentence for people
    why: str


def find_means(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> Means:
    """Look, and change nothing."""
    reason = "there are no cgroups"
    with contextlib.suppress(OSError):
        own = _own(root, membership.read_text())
        if own is None:
            reason = "cgroup version 2 is not in charge of this machine"
        else:
            missing = [name for name in CONTROLLERS if name not in (own / "cgroup.controllers").read_text().split()]
            if missing:
                reason = f"the cgroup {own} is not given {' and '.join(missing)}"
            elif not all(os.access(own / name, os.W_OK) for name in ("", "cgroup.procs", "cgroup.subtree_control")):
                reason = f"the cgroup {own} is not ours to manage"
            elif strangers := _members(own) - {os.getpid(), *tree.descendants(os.getpid())}:
                reason = f"the cgroup {own} holds {len(strangers)} processes that are not the office's"
            else:
                return Means(cgroup=own, why="The kernel keeps the limits of each desk as a whole, by its cgroup.")
    watch = "The kernel keeps the limits of each process, the office ends a desk that uses too much as a whole"
    return Means(cgroup=None, why=f"{watch}: {reason}.")


class Group:
    """The cgroup of one desk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: Path, name: str, limits: Limits) -> Group:
        """Raises `OSError` if the kernel refuses: `find_means` looked a moment ago, so that is not expected."""
        _hand_down(parent)
        group = cls(parent / f"{_PREFIX}{_UNFIT.sub('_', name)}")
        group.path.mkdir(exist_ok=True)
        group.write("memory.max", limits.memory_bytes)
        group.write("pids.max", limits.tasks)
        for name_, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
            with contextlib.suppress(FileNotFoundError):  # kernels without swap accounting, or older than 4.19
                group.write(name_, value)
        return group

    def write(self, name: str, value: int) -> None:
        # opened without creating: in a cgroup that would only fail with another error
        handle = os.open(self.path / name, os.O_WRONLY)
        try:
            os.write(handle, b"%d" % value)
        finally:
            os.close(handle)

    def entering(self, argv: list[str]) -> list[str]:
        """The command that joins the group and then becomes `argv`."""
        return ["/bin/sh", "-c", _ENTER, str(self.path / "cgroup.procs"), *argv]

    def read(self) -> Reading:
        usage = dict(line.split() for line in (self.path / "cpu.stat").read_text().splitlines())
        return Reading(
            memory_bytes=int((self.path / "memory.current").read_text()),
            tasks=int((self.path / "pids.current").read_text()),
            cpu_seconds=int(usage["usage_usec"]) / 1e6,
        )

    def kill(self) -> None:
        """End every process in it at once, also those that are being forked."""
        try:
            self.write("cgroup.kill", 1)
        except FileNotFoundError:  # kernels older than 5.14
            for pid in _members(self.path):
                tree.send(pid, 9)

    def remove(self) -> None:
        """Forget the group; a process that still ends holds it for a moment. Blocks for `REMOVE_SECONDS` at most."""
        deadline = time.monotonic() + REMOVE_SECONDS
        while True:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                self.kill()
                time.sleep(0.005)


def _own(root: Path, membership: str) -> Path | None:
    """The folder of this process's cgroup; None if any controller belongs to version 1."""
    lines = membership.split()
    if len(lines) != 1 or not lines[0].startswith("0::/"):
        return None
    own = root / lines[0].removeprefix("0::/")
    return own.parent if own.name == HOST else own


def _members(folder: Path) -> set[int]:
    return {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}


def _hand_down(parent: Path) -> None:
    """Let the children of `parent` have the controllers; its own processes move to a leaf for that."""
    given = (parent / "cgroup.subtree_control").read_text().split()
    if all(name in given for name in CONTROLLERS):
        return
    leaf = Group(parent / HOST)
    leaf.path.mkdir(exist_ok=True)
    for pid in _members(parent):
        with contextlib.suppress(ProcessLookupError):
            leaf.write("cgroup.procs", pid)
    (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
