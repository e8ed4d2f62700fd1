"""Messages that are stored, durably, beside requests that do nothing, on the same server."""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import pairwise

from benchmarks.api.offices import Served, served
from benchmarks.api.wire import Line, lines
from benchmarks.measure import Setting, company
from benchmarks.report import Fact, Section

CONNECTIONS = 32
REQUESTS = 6_000
SHARE = 0.5


def accept(setting: Setting) -> Section:
    count = setting.of(REQUESTS, least=64)
    with company() as heard, served(["a0"]) as office:
        office.door.ask("pause", id="a0")
        rounds = asyncio.run(_rounds(office, setting.rounds, count))
    empty, stored, empty_cpu, stored_cpu = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    # each round by itself: a busy minute is both's
    share = statistics.median(message / nothing for nothing, message, _, _ in rounds)
    return Section(
        title=f"POST /api/message, {CONNECTIONS} connections, {count:,} requests a round, the agent paused",
        lines=[
            Fact(what="a route that does nothing", value=f"{empty:,.0f} requests/s, {empty_cpu:.0f} µs of CPU each"),
            Fact(what="a message, stored", value=f"{stored:,.0f} requests/s, {stored_cpu:.0f} µs of CPU each"),
            Fact(
                what="share",
                value=f"{share:.0%} of what the server does without storing anything",
                target=f"≥ {SHARE:.0%}",
                holds=share >= SHARE,
            ),
        ],
        company=heard,
        notes=["durability `power`: each is on the disk when it is answered; those who ask at once share a commit"],
    )


async def _rounds(office: Served, rounds: int, count: int) -> list[tuple[float, float, float, float]]:
    connections = await lines(office.url(), office.token(), CONNECTIONS)
    try:
        found = []
        for number in range(rounds + 1):
            marks = [office.cpu()]
            nothing = await _rate(connections, count, "/api/nothing", {})
            marks.append(office.cpu())
            message = await _rate(connections, count, "/api/message", {"message": "!say hello", "agent": "a0"})
            marks.append(office.cpu())
            if number:  # the first warms up
                cpu = [(after - before) / count * 1e6 for before, after in pairwise(marks)]
                found.append((nothing, message, cpu[0], cpu[1]))
        return found
    finally:
        for line in connections:
            line.close()


async def _rate(connections: list[Line], count: int, path: str, value: dict[str, str]) -> float:
    left = count

    async def ask(line: Line) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            status = await line.ask("POST", path, value)
            assert status == 200, status

    began = time.perf_counter()
    await asyncio.gather(*(ask(line) for line in connections))
    return count / (time.perf_counter() - began)
