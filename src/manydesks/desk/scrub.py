"""A desk's file lets go of rows: as it is mended, by whoever wrote it, and never by the host where a stranger did."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from manydesks.desk.confined import Confined
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes.base import Plan
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.errors import SandboxError
from manydesks.mailbox import scrub as rows
from manydesks.runner.main import FORGET


async def scrub(
    folder: Path,
    workspace: Path,
    *,
    office: str,
    runs: Sequence[str],
    messages: Sequence[str],
    sandboxes: Sandboxes | None = None,
) -> None:
    """Take these runs, and what was said to these messages, out of a session's outbound.db; nobody sits there.

    Raises `MailboxError`, `SandboxError` or `BadInput`.
    """
    if not (folder / "out" / "outbound.db").exists():
        return
    sandbox = Confined(folder).sandbox()
    if sandbox is None:
        await asyncio.to_thread(rows.outbound, folder / "out", runs, messages)
        return
    order = await asyncio.to_thread(rows.write_order, folder / "in", runs, messages)
    try:
        plan = Plan(
            argv=(sys.executable, "-I", "-m", "manydesks.runner", FORGET, str(folder / "in")),
            mark=f"{MARK}{office}-forget-{folder.name}",
            workspace=workspace,
            inbox=folder / "in",
            outbox=folder / "out",
            state=folder / "state",
        )
        running = await (sandboxes or Sandboxes()).get(sandbox).load().start(plan)
        if (code := await running.wait()) != 0:
            raise SandboxError(reason=f"the desk in {folder} did not let go of its rows, the runner ended with {code}")
    finally:
        order.unlink(missing_ok=True)
