"""A program that runs inside bubblewrap, seen from outside: how to ask it to end, and how to be sure that it did."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from manydesks.desk.sandboxes import tree
from manydesks.desk.sandboxes.base import GRACE_SECONDS
from manydesks.desk.sandboxes.cgroup import Group
from manydesks.desk.sandboxes.limits import Limits, Reading, apply
from manydesks.domain.errors import SandboxError


class Confined:
    """As `Running`. Outside there is bwrap; its child is the first process of the sandbox, whose end is everyone's."""

    def __init__(self, process: asyncio.subprocess.Process, first: int, group: Group | None) -> None:
        """Raises `ProcessLookupError` if the sandbox has ended already."""
        self.pid = process.pid
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr
        self._process = process
        self._first = first
        self._group = group
        # a number may be given to another process; what a descriptor means stays
        self._handle = os.pidfd_open(first)
        self._gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._handle, self._over)

    def hold(self, limits: Limits) -> None:
        """Before the program begins: whatever it starts has these limits then."""
        apply(self._first, limits, count_tasks=True)
        with contextlib.suppress(OSError):  # if memory runs out, a desk goes before the office does
            Path(f"/proc/{self._first}/oom_score_adj").write_text("500")

    async def wait(self) -> int:
        code = await self._process.wait()
        await self._gone.wait()
        await self._forget_group()
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        if not self._gone.is_set():
            self._ask()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), grace)
        if not self._gone.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            try:
                await asyncio.wait_for(self._gone.wait(), tree.END_SECONDS)
            except TimeoutError as error:
                raise SandboxError(
                    reason=f"process {self._first}, the first of a desk's sandbox, does not end"
                ) from error
        await self._process.wait()
        await self._forget_group()

    def read(self) -> Reading:
        if self._gone.is_set():
            return tree.read(())
        return self._group.read() if self._group else tree.read({self.pid, *tree.descendants(self.pid)})

    def _ask(self) -> None:
        """SIGTERM for the program itself: bwrap would pass nothing on."""
        for pid in tree.children(self._first):
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                if pid in tree.children(self._first):  # still the one that was meant
                    signal.pidfd_send_signal(handle, signal.SIGTERM)
            except ProcessLookupError:
                continue
            finally:
                os.close(handle)

    def _over(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._gone.set()

    async def _forget_group(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await asyncio.to_thread(group.remove)
