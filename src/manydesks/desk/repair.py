"""After a crash: end what an earlier host left running, and mend the desk's file where it was written.

Opening outbound.db replays its journal, and a forged journal does harm to whoever replays it: a file that a sandbox
could write is mended inside one, never by the host.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from manydesks.desk.confined import Confined
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes import tree
from manydesks.desk.sandboxes.base import Plan
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.errors import SandboxError
from manydesks.mailbox.desk import DeskMailbox
from manydesks.runner.main import REPAIR


def end_leftovers(office: str) -> bool:
    """End every process of this office's desks, by their mark; False if something does not end. Blocks."""
    return tree.end(lambda: tree.marked(f"{MARK}{office}-*"))


async def repair(folder: Path, workspace: Path, *, office: str, sandboxes: Sandboxes | None = None) -> None:
    """Mend the desk's side of a session's mailbox. Raises `MailboxError`, `SandboxError` or `BadInput`."""
    sandbox = Confined(folder).sandbox()
    if sandbox is None:
        await asyncio.to_thread(DeskMailbox(folder / "in", folder / "out").open)
        return
    plan = Plan(
        argv=(sys.executable, "-I", "-m", "manydesks.runner", REPAIR, str(folder / "in")),
        mark=f"{MARK}{office}-repair-{folder.name}",
        workspace=workspace,
        inbox=folder / "in",
        outbox=folder / "out",
        state=folder / "state",
    )
    running = await (sandboxes or Sandboxes()).get(sandbox).load().start(plan)
    if (code := await running.wait()) != 0:
        raise SandboxError(reason=f"the mailbox in {folder} could not be mended, the runner ended with {code}")
