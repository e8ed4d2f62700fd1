"""A message from its arrival to its answer's delivery: what it costs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.measure import Setting, company
from benchmarks.office.offices import named, watched
from benchmarks.report import Fact, Section

LANES, MESSAGES = 64, 6_400
TARGET_MS, STORE_MS = 8.0, 1.0
#: a run for each message: batches would share its cost
ONE_BY_ONE = {"MANYDESKS_DISPATCH__BATCH": "1"}


def through(setting: Setting) -> Section:
    count = setting.of(MESSAGES, least=2 * LANES)
    with company() as heard:
        each, store, rate, size = _sent(count)
        with _one_core():
            alone, alone_store, alone_rate, _ = _sent(count)
    return Section(
        title=f"End to end: {count} messages in {LANES} lanes, a run each, sent from inside the host",
        lines=[
            Fact(
                what="CPU of a message, all threads",
                value=f"{each:.2f} ms; {rate:,.0f} messages a second",
                target=f"≤ {TARGET_MS:g} ms",
                holds=each <= TARGET_MS,
            ),
            Fact(
                what="of it the store's writer",
                value=f"{store:.2f} ms",
                target=f"≤ {STORE_MS:g} ms",
                holds=store <= STORE_MS,
            ),
            Fact(
                what="the same, with the host on one core",
                value=f"{alone:.2f} ms, of it the store {alone_store:.2f} ms; {alone_rate:,.0f} messages a second",
            ),
            Fact(what="in memory at the end", value=f"{size:.1f} MB"),
        ],
        company=heard,
        notes=[
            "what an office takes that only opens is taken off",
            "on several cores threads wake each other up for Python's lock: on one core they take turns instead",
        ],
    )


def _sent(count: int) -> tuple[float, float, float, float]:
    """Milliseconds of CPU of a message, of all threads and of the writer; messages a second; megabytes at the end."""
    plan = {"agents": named(LANES), "count": count, "rate": 0, "text": "!say hello"}
    with watched(named(LANES), settings=ONE_BY_ONE) as made:
        empty = made.cpu()
    with watched(named(LANES), plan, settings=ONE_BY_ONE) as made:
        began = time.perf_counter()
        made.finish(count)
        wall, spent, size = time.perf_counter() - began, made.cpu() - empty, made.resident()
        writer = made.close()["writer"]
    return spent / count * 1000, writer / count * 1000, count / wall, size


@contextmanager
def _one_core() -> Iterator[None]:
    """Whatever is started meanwhile has one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
