"""No sandbox: the program runs as the office's user does. It can be ended as a whole, and its environment is clean.

Nothing keeps it from reading what that user can read, or from talking to the network. It is chosen by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from subprocess import DEVNULL

from manydesks.desk.sandboxes import cgroup, tree
from manydesks.desk.sandboxes.base import GRACE_SECONDS, Descriptor, Health, Plan, require_main_thread
from manydesks.desk.sandboxes.limits import Reading
from manydesks.domain.errors import SandboxError

_SUPERVISOR = ("-I", "-m", "manydesks.desk.sandboxes.supervisor")


class NoSandbox:
    """As `Sandbox`."""

    async def check(self) -> Health:
        whole = "" if tree.PROC.is_dir() else " Without /proc, a process that leaves its session outlives its desk."
        return Health(
            works=True,
            why="It needs nothing." + whole,
            advice="Agents can read and change all that you can: prefer bubblewrap where it works.",
            limits=cgroup.find_means().why,
        )

    async def start(
        self, plan: Plan, *, stdin: int = DEVNULL, stdout: int = DEVNULL, stderr: int = DEVNULL
    ) -> Unconfined:
        require_main_thread()
        plan.check()
        argv = [sys.executable, *_SUPERVISOR, str(os.getpid()), json.dumps(asdict(plan.limits)), *plan.argv]
        means = cgroup.find_means()
        group: cgroup.Group | None = None
        try:
            if means.cgroup is not None:
                group = cgroup.Group.create(means.cgroup, plan.mark, plan.limits)
            process = await asyncio.create_subprocess_exec(
                *(group.entering(argv) if group else argv),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=plan.workspace,
                env=plan.environment(),
                start_new_session=True,
            )
        except OSError as error:
            if group is not None:
                group.remove()
            raise SandboxError(reason=f"{Path(sys.executable).name} cannot be started, {error.strerror}") from error
        return Unconfined(process, plan.mark, group)


class Unconfined:
    """As `Running`."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, group: cgroup.Group | None) -> None:
        self.pid = process.pid
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr
        self._process = process
        self._mark = mark
        self._group = group

    async def wait(self) -> int:
        code = await self._process.wait()
        # mostly nobody is left; if the supervisor itself was killed, its adopted ones have gone to another parent
        await asyncio.to_thread(self._end_all)
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        if self._process.returncode is None:
            tree.send(self.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace)
        await asyncio.shield(asyncio.to_thread(self._end_all))
        await self._process.wait()

    def read(self) -> Reading:
        if self._group is not None and self._process.returncode is None:
            return self._group.read()
        return tree.read({self.pid, *tree.descendants(self.pid)} if self._process.returncode is None else ())

    def _find(self) -> set[int]:
        if self._process.returncode is not None:  # its number may be another's by now
            return tree.marked(self._mark)
        # the supervisor goes last: while it lives, nothing can leave the tree
        return (tree.descendants(self.pid) | tree.marked(self._mark)) - {self.pid}

    def _end_all(self) -> None:
        gone = tree.end(self._find)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        if self._group is not None:
            self._group.remove()
        if not gone:
            raise SandboxError(reason=f"processes of the desk {self._mark} do not end")


SANDBOX = Descriptor(name="none", isolates=False, load=NoSandbox, summary="runs as you do; nothing is held back")
