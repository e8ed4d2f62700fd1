"""The host with nothing to do."""

from __future__ import annotations

import time

from benchmarks.measure import Setting, company
from benchmarks.office.offices import named, watched
from benchmarks.report import Fact, Section

AGENTS = 100
SECONDS = 60
#: after the last answer: desks settle, the log is swept, caches are written
SETTLE_SECONDS = 5
TARGET_MB, TARGET_PERCENT = 120.0, 0.5


def idle(setting: Setting) -> Section:
    agents = named(setting.of(AGENTS, least=5))
    seconds, settle = setting.of(SECONDS, least=3), setting.of(SETTLE_SECONDS)
    with company() as heard, watched(agents, plain=True) as made:
        fresh = made.resident()
        for agent in agents:
            made.door.ask("send", text="!say hello", to=agent)
        made.finish(len(agents))
        time.sleep(settle)
        before, began = made.cpu(), time.perf_counter()
        time.sleep(seconds)
        percent = (made.cpu() - before) / (time.perf_counter() - began) * 100
        size = made.resident()
    return Section(
        title=f"The host idle: {len(agents)} agents, each of which has answered once",
        lines=[
            Fact(
                what="in memory",
                value=f"{size:.1f} MB; {fresh:.1f} MB before their first message",
                target=f"≤ {TARGET_MB:g} MB",
                holds=size <= TARGET_MB,
            ),
            Fact(
                what=f"CPU over {seconds} s",
                value=f"{percent:.2f} % of a core",
                target=f"≤ {TARGET_PERCENT:g} %",
                holds=percent <= TARGET_PERCENT,
            ),
        ],
        company=heard,
    )
