"""How the queue stands, asked while it is busy and the store is large."""

from __future__ import annotations

import asyncio
import time

from benchmarks.api.offices import Served, served
from benchmarks.api.wire import lines
from benchmarks.measure import Setting, company
from benchmarks.office.offices import part_of, spread
from benchmarks.report import Fact, Section

COMPLETED = 1_000_000
ACCEPTED, ANSWERED = 200, 50
SECONDS = 20
P99_MS = 20.0


def status(setting: Setting) -> Section:
    completed, seconds = setting.of(COMPLETED, least=1000), setting.of(SECONDS, least=2)
    with company() as heard, served(["a0", "a1"], completed=completed) as office:
        office.door.ask("pause", id="a0")
        times, accepted, answered = asyncio.run(_busy(office, seconds))
    p99 = part_of(times, 0.99)
    return Section(
        title=f"GET /api/queue/status, with {completed:,} completed messages",
        lines=[
            Fact(
                what="answered within",
                value=spread(times),
                target=f"p99 < {P99_MS:g} ms",
                holds=p99 < P99_MS,
            ),
            Fact(
                what="meanwhile",
                value=f"{accepted / seconds:.0f}/s accepted for a paused agent, {answered / seconds:.0f}/s answered",
                target=f"{ACCEPTED}/s, {ANSWERED}/s",
                holds=accepted / seconds > ACCEPTED * 0.9 and answered / seconds > ANSWERED * 0.9,
            ),
        ],
        company=heard,
    )


async def _busy(office: Served, seconds: int) -> tuple[list[float], int, int]:
    connections = await lines(office.url(), office.token(), 17)
    asking, *others = connections
    over = time.perf_counter() + seconds
    counts = {"a0": 0, "a1": 0}

    async def send(number: int, agent: str, rate: float) -> None:
        due = time.perf_counter() + number / rate / 8
        while due < over:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            assert await others[number].ask("POST", "/api/message", {"message": "!say hi", "agent": agent}) == 200
            counts[agent] += 1
            due += 8 / rate

    times: list[float] = []

    async def ask() -> None:
        while time.perf_counter() < over:
            began = time.perf_counter()
            assert await asking.ask("GET", "/api/queue/status") == 200
            times.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.01)

    await asyncio.gather(
        ask(),
        *(send(number, "a0", ACCEPTED) for number in range(8)),
        *(send(number + 8, "a1", ANSWERED) for number in range(8)),
    )
    for line in connections:
        line.close()
    answered = office.until(lambda reader: _answered(reader.queue_status("a1"), counts["a1"]), 60)
    return times, counts["a0"], answered


def _answered(queue: dict[str, int], wanted: int) -> int | None:
    return queue["completed"] if queue["completed"] >= wanted else None
