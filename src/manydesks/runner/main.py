"""`manydesks-runner IN`: the process at a desk. The host starts it, in a sandbox, with `in/` of the session's folder.

It ends when it is told to, when nothing came for the idle time, and when its host is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import ManyDesksError, RunnerCrashed
from manydesks.mailbox.desk import DeskMailbox
from manydesks.runner.bell import HostPipe
from manydesks.runner.loop import Runner
from manydesks.runner.orders import Orders, read_orders
from manydesks.runner.providers.registry import Providers
from manydesks.runner.tools.base import Means

#: exit codes: in good order; a refusal with one sentence; the provider says that the runner died
DONE, REFUSED, CRASHED = 0, 2, 70

#: before the folder: mend the desk's side of the mailbox after a crash, and leave
REPAIR = "--repair"

USAGE = "usage: manydesks-runner [--repair] IN (`in/` of a session; the office starts this program, not a person)"


def main() -> int:
    """Until it is told to leave; the exit code."""
    words = sys.argv[1:]
    mends = words[:1] == [REPAIR]
    if len(words) != 1 + mends:
        sys.stderr.write(f"{USAGE}\n")
        return REFUSED
    inbox = Path(words[-1])
    # whatever a provider or its programs make without a thought is the owner's alone
    os.umask(0o077)
    try:
        if mends:
            DeskMailbox(inbox, inbox.parent / "out").open()
            return DONE
        orders = read_orders(inbox)
        logging.basicConfig(level=orders.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        return asyncio.run(_sit(orders))
    except RunnerCrashed as crash:
        sys.stderr.write(f"{crash}\n")
        return CRASHED
    except ManyDesksError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED


async def _sit(orders: Orders) -> int:
    pipe = HostPipe()
    pipe.open()
    work = asyncio.create_task(_work(orders, pipe))
    leave = asyncio.create_task(pipe.gone.wait())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.cancel)
    try:
        await asyncio.wait({work, leave}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leave.cancel()
        if not work.done():
            work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        pipe.close()
    return DONE


async def _work(orders: Orders, pipe: HostPipe) -> None:
    folder = Path(orders.folder)
    mailbox = DeskMailbox(folder / "in", folder / "out")
    # a journal that a killed runner left is replayed here, at the desk, and never by the host
    await asyncio.to_thread(mailbox.open)
    descriptor = Providers().get(orders.provider)
    server, url = None, None
    if descriptor.program is not None:
        # a program of its own gets the tools over loopback; other providers call them directly
        from manydesks.runner.toolserver import ToolServer

        server = ToolServer()
        url = await server.start()
    provider = descriptor.load(orders.station(tools_url=url))
    try:
        await Runner(
            mailbox,
            provider,
            agent=orders.agent,
            name=orders.name,
            clock=SystemClock(),
            nudge=pipe.nudged,
            on_output=pipe.written,
            on_progress=pipe.progress,
            idle_seconds=orders.idle_seconds,
            poll_seconds=orders.poll_seconds,
            continuation=orders.continuation,
            means=Means(workspace=Path(orders.workspace), outbox=folder / "out" / "outbox"),
            tool_server=server,
        ).run()
    finally:
        await provider.close()
        if server is not None:
            await server.close()
