"""A message from its arrival to its answer's delivery: what it costs."""

from __future__ import annotations

import time

from benchmarks.measure import Setting, company
from benchmarks.office.offices import named, watched
from benchmarks.report import Fact, Section

LANES, MESSAGES = 64, 6_400
TARGET_MS, STORE_MS = 8.0, 1.0
#: a run for each message: batches would share its cost
ONE_BY_ONE = {"MANYDESKS_DISPATCH__BATCH": "1"}


def through(setting: Setting) -> Section:
    count = setting.of(MESSAGES, least=2 * LANES)
    plan = {"agents": named(LANES), "count": count, "rate": 0, "text": "!say hello"}
    with company() as heard:
        with watched(named(LANES), settings=ONE_BY_ONE) as made:
            empty = made.cpu()
        with watched(named(LANES), plan, settings=ONE_BY_ONE) as made:
            began = time.perf_counter()
            made.finish(count)
            wall, spent, size = time.perf_counter() - began, made.cpu() - empty, made.resident()
            writer = made.close()["writer"]
    each, store = spent / count * 1000, writer / count * 1000
    return Section(
        title=f"End to end: {count} messages in {LANES} lanes, a run each, sent from inside the host",
        lines=[
            Fact(
                what="CPU of a message, all threads",
                value=f"{each:.2f} ms; {count / wall:,.0f} messages a second",
                target=f"≤ {TARGET_MS:g} ms",
                holds=each <= TARGET_MS,
            ),
            Fact(
                what="of it the store's writer",
                value=f"{store:.2f} ms",
                target=f"≤ {STORE_MS:g} ms",
                holds=store <= STORE_MS,
            ),
            Fact(what="in memory at the end", value=f"{size:.1f} MB"),
        ],
        company=heard,
        notes=["what an office takes that only opens is taken off"],
    )
