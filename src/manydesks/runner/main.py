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
from typing import cast

# The mailbox and the loop are imported on use: a provider's program boots meanwhile.
from manydesks.domain.errors import ManyDesksError, RunnerCrashed
from manydesks.runner.bell import HostPipe
from manydesks.runner.equipment import Equipment, equipped
from manydesks.runner.orders import Orders, read_orders
from manydesks.runner.providers.base import Preparable, Provider
from manydesks.runner.providers.registry import Providers

#: exit codes: in good order; a refusal with one sentence; the provider says that the runner died
DONE, REFUSED, CRASHED = 0, 2, 70

#: before the folder: mend the desk's side of the mailbox after a crash, and leave
REPAIR = "--repair"

#: before the folder: take out of it the rows that `in/forget.json` names, and leave
FORGET = "--forget"

USAGE = (
    "usage: manydesks-runner [--repair | --forget] IN "
    "(`in/` of a session; the office starts this program, not a person)"
)


def main() -> int:
    """Until it is told to leave; the exit code."""
    words = sys.argv[1:]
    mends = words[:1] in ([REPAIR], [FORGET])
    if words in (["--help"], ["-h"]):
        sys.stdout.write(f"{USAGE}\n")
        return DONE
    if len(words) != 1 + mends or words[-1].startswith("-"):
        sys.stderr.write(f"{USAGE}\n")
        return REFUSED
    inbox = Path(words[-1])
    # whatever a provider or its programs make without a thought is the owner's alone
    os.umask(0o077)
    try:
        if mends:
            from manydesks.mailbox.desk import DeskMailbox

            DeskMailbox(inbox, inbox.parent / "out").open()
            if words[0] == FORGET:
                from manydesks.mailbox.scrub import follow_order

                follow_order(inbox, inbox.parent / "out")
            return DONE
        orders = read_orders(inbox)
        _log(orders.log_level)
        return asyncio.run(_sit(orders))
    except RunnerCrashed as crash:
        sys.stderr.write(f"{crash}\n")
        return CRASHED
    except ManyDesksError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED


def _log(level: str) -> None:
    """To standard error, which the office keeps as the desk's log: at any level what programs print, by run."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in ("runs", "printed"):
        logging.getLogger(f"manydesks.runner.{name}").setLevel(logging.INFO)
    for name in ("httpx", "httpcore"):
        # a line for each call
        logging.getLogger(name).setLevel(logging.WARNING)


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
    descriptor = Providers().get(orders.provider)
    async with equipped(descriptor, orders) as equipment:
        provider = descriptor.load(equipment.station)
        try:
            if descriptor.prepares:
                # what takes longest begins first
                await cast("Preparable", provider).prepare(orders.continuation)
            await _serve(orders, pipe, provider, equipment)
        finally:
            await provider.close()


async def _serve(orders: Orders, pipe: HostPipe, provider: Provider, equipment: Equipment) -> None:
    from manydesks.domain.clock import SystemClock
    from manydesks.mailbox.desk import DeskMailbox
    from manydesks.runner.loop import Runner
    from manydesks.runner.room import when_there_is_room
    from manydesks.runner.tools.base import Means

    if equipment.tools is not None:
        equipment.tools.load()
    folder = Path(orders.folder)
    mailbox = DeskMailbox(folder / "in", folder / "out")
    # a journal that a killed runner left is replayed here, at the desk, and never by the host
    await when_there_is_room(lambda: asyncio.to_thread(mailbox.open))
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
        tool_server=equipment.tools,
    ).run()
