"""One message for many agents at once."""

from __future__ import annotations

import statistics
import time

from benchmarks.measure import Setting, company
from benchmarks.office.offices import named, watched
from benchmarks.report import Fact, Section

AGENTS, SECONDS = 50, 2
TARGET = 1.3


def fanout(setting: Setting) -> Section:
    agents = named(AGENTS)
    text = f"[@{','.join(agents)}: !sleep {SECONDS}\n!say done]"
    ratios, walls, slowest = [], [], []
    with company() as heard, watched(agents) as made:
        # the first time all of them sit down
        for number in range(setting.rounds + 1):
            began = time.perf_counter()
            trace = made.ask(text)
            wall = (time.perf_counter() - began) * 1000
            messages = trace["messages"]
            if [message["status"] for message in messages] != ["completed"] * AGENTS:
                raise AssertionError(f"it did not end well: {trace}")
            longest = max(message["runs"][-1]["durationMs"] for message in messages)
            if number:
                walls.append(wall)
                slowest.append(longest)
                ratios.append(wall / longest)
            else:
                cold = wall / longest
    middle = statistics.median(ratios)
    return Section(
        title=f"One message to {AGENTS} agents, each of which takes {SECONDS} s",
        lines=[
            Fact(
                what="all answers, beside the slowest run",
                value=f"{middle:.2f} x ({statistics.median(walls):.0f} ms, the slowest run "
                f"{statistics.median(slowest):.0f} ms); {cold:.2f} x the first time",
                target=f"≤ {TARGET:g} x",
                holds=middle <= TARGET,
            ),
        ],
        company=heard,
        notes=["from before the message is sent to when the last answer is out"],
    )
