"""Those who follow the events: how soon they hear of one, how far the last lags, and what all of them cost."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.api.offices import Served, served
from benchmarks.api.wire import Line, lines
from benchmarks.measure import Setting, company
from benchmarks.office.offices import spread
from benchmarks.report import Fact, Section

READERS = 100
#: events a second, three for each message that is sent
EVENTS = 100
SECONDS = 20
P50_MS, LAG_MS, CORES = 20.0, 1000.0, 0.5


def follow(setting: Setting) -> Section:
    seconds, many = setting.of(SECONDS, least=2), setting.of(READERS, least=5)
    with company() as heard, served(["a0"]) as office:
        office.door.ask("pause", id="a0")
        alone, _, _ = asyncio.run(_follow(office, 1, seconds))
        crowd, whole, cores = asyncio.run(_follow(office, many, seconds))
    return Section(
        title=f"Events a second: {EVENTS}, to those who follow them",
        lines=[
            Fact(
                what="one reader hears of an event after",
                value=spread(alone),
                target=f"p50 < {P50_MS:g} ms",
                holds=statistics.median(alone) < P50_MS,
            ),
            Fact(
                what=f"each of {many} readers",
                value=spread(crowd),
                target=f"nobody over {LAG_MS:g} ms",
                holds=max(crowd) < LAG_MS,
            ),
            Fact(what="each had every event once, in order", value="yes" if whole else "no", target="yes", holds=whole),
            Fact(
                what=f"CPU of the host with {many} readers",
                value=f"{cores:.2f} of a core, the messages themselves included",
                target=f"< {CORES:g}",
                holds=cores < CORES,
            ),
        ],
        company=heard,
        notes=["from the moment that the event carries, which is before its commit"],
    )


async def _follow(office: Served, readers: int, seconds: int) -> tuple[list[float], bool, float]:
    followers = await lines(office.url(), office.token(), readers)
    (sender,) = await lines(office.url(), office.token(), 1)
    seen: list[list[int]] = [[] for _ in followers]
    late: list[float] = []

    async def listen(line: Line, mine: list[int]) -> None:
        def heard(seq: int, at: int, now: float) -> None:
            mine.append(seq)
            late.append(max(0.0, now - at))

        await line.follow(heard)

    tasks = [asyncio.create_task(listen(line, mine)) for line, mine in zip(followers, seen, strict=True)]
    await asyncio.to_thread(_until, lambda: _readers(office) >= readers)
    before, began = office.cpu(), time.perf_counter()
    due = began
    sent = 0
    while time.perf_counter() - began < seconds:
        assert await sender.ask("POST", "/api/message", {"message": "hello", "agent": "a0"}) == 200
        sent += 1
        due += 3 / EVENTS
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    cores = (office.cpu() - before) / (time.perf_counter() - began)
    await asyncio.to_thread(_until, lambda: min(map(len, seen)) >= 3 * sent)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for line in (*followers, sender):
        line.close()
    return late, all(_whole(mine, 3 * sent) for mine in seen), cores


def _until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.perf_counter() + seconds
    while not holds() and time.perf_counter() < deadline:
        time.sleep(0.02)


def _whole(seen: Sequence[int], count: int) -> bool:
    return len(seen) >= count and list(seen) == list(range(seen[0], seen[0] + len(seen)))


def _readers(office: Served) -> int:
    host = office.door.host()
    assert host is not None
    return int(host["api"]["readers"])
