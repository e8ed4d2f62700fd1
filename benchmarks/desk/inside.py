"""A turn of rehearsal at a desk inside the host: both files of the mailbox, the loop, the provider."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Setting, company
from benchmarks.report import Fact, Section
from manydesks.domain.clock import SystemClock
from manydesks.domain.mail import Inbound
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.loop import Runner
from manydesks.runner.providers.rehearsal import Rehearsal

TURNS = 200
TARGET_MS = 5.0


def inside(setting: Setting) -> Section:
    turns = setting.of(TURNS, least=20)
    with company() as heard:
        spent = []
        for _ in range(setting.rounds):
            with tempfile.TemporaryDirectory(dir=setting.scratch) as folder:
                spent.append(asyncio.run(_measure(Path(folder) / "session", turns)) * 1000)
    middle = statistics.median(spent)
    fact = Fact(
        what="CPU of one turn",
        value=f"p50 {middle:.2f} ms of {len(spent)} rounds, the dearest {max(spent):.2f} ms",
        target=f"≤ {TARGET_MS:g} ms",
        holds=middle <= TARGET_MS,
    )
    return Section(title=f"Rehearsal inside the host: {turns} turns a round", lines=[fact], company=heard)


async def _measure(folder: Path, turns: int) -> float:
    """CPU seconds of one turn, of all threads."""
    host = HostMailbox(folder, session="session_bench001", agent="amy")
    host.prepare()
    desk = DeskMailbox(folder / "in", folder / "out")
    desk.open()
    nudge, output = asyncio.Event(), asyncio.Event()
    runner = Runner(
        desk,
        Rehearsal(),
        agent="amy",
        clock=SystemClock(),
        nudge=nudge,
        on_output=output.set,
        idle_seconds=60,
        poll_seconds=60,
    )
    task = asyncio.create_task(runner.run())
    epoch, after = None, 0
    begun = time.process_time()
    for number in range(1, turns + 1):
        content = {"sender": "ada", "text": "hello"}
        row = Inbound(id=f"m_{number}", run=f"r_{number}", fence=number, kind="chat", at=1, tries=1, content=content)
        output.clear()
        host.put([row])
        nudge.set()
        await output.wait()
        found = host.collect(epoch, after)
        if found is None or not found.acks:
            raise AssertionError("the turn left no ack")
        epoch, after = found.epoch, found.last_seq
    spent = time.process_time() - begun
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return spent / turns
