"""How soon a stored message is being worked on."""

from __future__ import annotations

import statistics
import time

from benchmarks.measure import Setting, company
from benchmarks.office.offices import events, named, part_of, spread, watched
from benchmarks.report import Fact, Section
from manydesks.domain.ids import new_id

RATE, SECONDS, AGENTS = 50, 30, 50
P50_MS, P99_MS, ACROSS_MS = 5.0, 30.0, 10.0


def pickup(setting: Setting) -> Section:
    count = RATE * setting.of(SECONDS, least=2)
    plan = {"agents": named(AGENTS), "count": count, "rate": RATE, "text": "!say hello"}
    with company() as heard:
        with watched(named(AGENTS), plan) as made:
            made.finish(count)
            reader = made.door.reader()
            try:
                enqueued = {event["message"]: event["at"] for event in events(reader, "message_enqueued")}
                started = {event["message"]: event["at"] for event in events(reader, "chain_step_start")}
            finally:
                reader.close()
            seen = made.close()
        inside = [(seen["begun"][id] - at) / 1e6 for id, at in seen["stored"].items()]
        ledger = [float(at - enqueued[id]) for id, at in started.items()]
        across = _across(count)
    middle, tail, other = statistics.median(inside), part_of(inside, 0.99), statistics.median(across)
    return Section(
        title=f"From the stored message to the run: {RATE} messages a second for {count // RATE} s, {AGENTS} agents",
        lines=[
            Fact(
                what="in the host, T1 committed to T2 committed",
                value=spread(inside),
                target=f"p50 ≤ {P50_MS:g} ms, p99 ≤ {P99_MS:g} ms",
                holds=middle <= P50_MS and tail <= P99_MS,
            ),
            Fact(what="the same, as the ledger's moments say", value=spread(ledger)),
            Fact(
                what="from another process, before it asks",
                value=spread(across),
                target=f"p50 ≤ {ACROSS_MS:g} ms",
                holds=other <= ACROSS_MS,
            ),
        ],
        company=heard,
        notes=["the ledger's moments are the beginnings of both transactions, in whole milliseconds"],
    )


def _across(count: int) -> list[float]:
    """Milliseconds from before each call of this process to the run; the monotonic clock is the machine's."""
    asked: dict[str, int] = {}
    with watched(agents := named(AGENTS)) as made:
        first = time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, first + number / RATE - time.perf_counter()))
            id = new_id("console")
            asked[id] = time.monotonic_ns()
            made.door.ask("send", text="!say hello", to=agents[number % AGENTS], sender="bench", message_id=id)
        made.finish(count)
        begun = made.close()["begun"]
    return [(begun[id] - at) / 1e6 for id, at in asked.items()]
