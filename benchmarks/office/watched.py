"""The host with a few clocks in it: run in the place of `manydesks`, it goes on as it.

Notes when each message was stored and when its run began, by the machine's monotonic clock, and feeds messages from
inside the host if it is told to: `BENCH_PLAN` names a JSON file with `agents`, `count`, `rate` (a second; 0: as fast as
they are taken, 64 at once) and `text`. What was seen is written to `BENCH_SEEN` when the host closes, with the CPU that
the store's writer has taken.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from manydesks.cli.main import main
from manydesks.domain.envelope import Accepted, Claimed, Incoming
from manydesks.office.host import Host
from manydesks.store.store import Store

#: sends at once, without a rate
AT_ONCE = 64

stored: dict[str, int] = {}
begun: dict[str, int] = {}

_accept, _claim, _work = Store.accept, Store.claim, Host._work


async def accept(self: Store, incoming: Incoming, **rules: Any) -> Accepted:
    accepted = await _accept(self, incoming, **rules)
    now = time.monotonic_ns()
    for message in accepted.messages:
        stored[message["messageId"]] = now
    return accepted


async def claim(self: Store, **limits: Any) -> list[Claimed]:
    claimed = await _claim(self, **limits)
    now = time.monotonic_ns()
    for run in claimed:
        for work in run.messages:
            begun.setdefault(work.message_id, now)
    return claimed


async def work(self: Host, *parts: Any) -> None:
    feeding = asyncio.create_task(feed(self, _plan()))
    try:
        await _work(self, *parts)
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        _write()


def _plan() -> dict[str, Any] | None:
    plan = os.environ.get("BENCH_PLAN")
    return json.loads(Path(plan).read_text()) if plan else None


def _write() -> None:
    (writer,) = (thread.ident for thread in threading.enumerate() if thread.name == "store-writer")
    assert writer is not None
    spent = time.clock_gettime(time.pthread_getcpuclockid(writer))
    Path(os.environ["BENCH_SEEN"]).write_text(json.dumps({"stored": stored, "begun": begun, "writer": spent}))


async def feed(host: Host, plan: dict[str, Any] | None) -> None:
    if plan is None:
        return
    assert host._clerk is not None
    clerk, agents = host._clerk, plan["agents"]
    room = asyncio.Semaphore(AT_ONCE)

    async def send(number: int) -> None:
        async with room:
            await clerk.perform("send", {"text": plan["text"], "to": agents[number % len(agents)], "sender": "bench"})

    loop = asyncio.get_running_loop()
    first, sending = loop.time(), []
    for number in range(plan["count"]):
        if plan["rate"]:
            await asyncio.sleep(max(0.0, first + number / plan["rate"] - loop.time()))
        sending.append(asyncio.create_task(send(number)))
    await asyncio.gather(*sending)


Store.accept = accept  # type: ignore[method-assign]
Store.claim = claim  # type: ignore[method-assign]
Host._work = work  # type: ignore[assignment,method-assign]

if __name__ == "__main__":
    main()
