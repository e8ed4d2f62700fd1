"""Very many messages wait for one agent: in order, in memory that does not grow."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.measure import Setting, company
from benchmarks.office.offices import Watched, events, prepared
from benchmarks.report import Fact, Section
from manydesks.domain.envelope import Incoming
from manydesks.settings.home import Home
from manydesks.store.store import Store

MESSAGES = 50_000
LOOK_SECONDS = 0.5
#: what the process may grow by after a fifth of the way
GROWTH_MB = 10.0


def backlog(setting: Setting) -> Section:
    count = setting.of(MESSAGES)
    with company() as heard, prepared(["a0"]) as folder:
        asyncio.run(_pile_up(Home(folder / "home"), count))
        sizes, wall, cpu, in_order = _work_off(folder, count)
    # by then what is made once is there: the desk, and the store's cache of pages, 16 MB
    early, late = sizes[len(sizes) // 5], max(sizes[len(sizes) // 5 :])
    return Section(
        title=f"{count:,} messages for one agent",
        lines=[
            Fact(what="worked off in", value=f"{wall:.1f} s, {cpu / count * 1000:.2f} ms of CPU a message"),
            Fact(
                what="in order", value="yes" if in_order else "no", target="the order of their arrival", holds=in_order
            ),
            Fact(
                what="in memory",
                value=f"{early:.1f} MB after a fifth, at most {late:.1f} MB after that, {sizes[-1]:.1f} MB at the end",
                target=f"≤ {GROWTH_MB:g} MB more",
                holds=late - early <= GROWTH_MB,
            ),
        ],
        company=heard,
        notes=["up to ten messages go to one run, as by default; each gets an answer of its own"],
    )


async def _pile_up(home: Home, count: int) -> None:
    store = Store(home.office_db, durability="crash")
    try:
        for first in range(0, count, 500):
            await asyncio.gather(*(_send(store, number) for number in range(first, min(first + 500, count))))
    finally:
        store.close()


async def _send(store: Store, number: int) -> None:
    incoming = Incoming(
        source="console", key=f"console_{number:08}", text="!say hello", channel="console", platform_id="terminal"
    )
    await store.accept(incoming, default_agent="a0", message_bytes=1_000)


def _work_off(folder: Path, count: int) -> tuple[list[float], float, float, bool]:
    made, sizes = Watched(folder, settings={}, plain=True), []
    made.start()
    try:
        reader = made.door.reader()
        try:
            began = time.perf_counter()
            while (counts := reader.queue_status())["completed"] < count or counts["outgoing"]:
                if counts["dead"]:
                    raise AssertionError(f"it does not end well: {counts} {made.log()[-2000:]}")
                sizes.append(made.resident())
                time.sleep(LOOK_SECONDS)
            wall, cpu = time.perf_counter() - began, made.cpu()
            sizes.append(made.resident())
            asked = [event["message"] for event in events(reader, "message_enqueued")]
            answered = [event["message"] for event in events(reader, "message_completed")]
        finally:
            reader.close()
    finally:
        made.kill()
    return sizes, wall, cpu, asked == answered
