"""The whole run, first with half a million events and then with five: archive, silver, gold, published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import Setting, company
from benchmarks.pipeline.homes import MASTER, made_up, pipeline
from benchmarks.pipeline.observed import Observed
from benchmarks.report import Fact, Section

FEW, MANY = 500_000, 5_000_000
#: of the archive alone
RATE = 250_000
SECONDS, BYTES, GROWTH = 240.0, 6e9, 11.0


def whole(setting: Setting) -> Section:
    with company() as heard:
        few, _ = _run(made_up(setting.scratch, setting.of(FEW)))
        many, told = _run(made_up(setting.scratch, setting.of(MANY)))
        # every process was waited for by its own parent, not by this one
        heard.unwaited = few.cpu + many.cpu
    steps = {step["step"]: step for step in told["steps"]}
    archived = steps["bodies"]["seconds"] + steps["events"]["seconds"]
    events = steps["events"]["rowsOut"]
    slowest = sorted(told["steps"], key=lambda step: -float(step["seconds"]))[:6]
    growth = many.cpu / few.cpu
    return Section(
        title=f"A first run over {events:,} events, from a cold start",
        lines=[
            Fact(
                what="archived, with their texts",
                value=f"{events / archived:,.0f} events/s ({archived:.1f} s)",
                target=f"≥ {RATE:,} events/s",
                holds=events / archived >= RATE,
            ),
            Fact(
                what="the whole run",
                value=f"{many.wall:.0f} s, {many.cpu:.0f} s of CPU",
                target=f"≤ {SECONDS:g} s",
                holds=many.wall <= SECONDS,
            ),
            Fact(
                what="memory of all its processes at most",
                value=f"{many.bytes / 1e9:.1f} GB",
                target=f"≤ {BYTES / 1e9:g} GB",
                holds=many.bytes <= BYTES,
            ),
            Fact(
                what="ten times the events",
                value=f"{growth:.1f} x the CPU ({few.cpu:.0f} s, {few.wall:.0f} s on the wall, for a tenth)",
                target=f"≤ {GROWTH:g} x",
                holds=growth <= GROWTH,
            ),
        ],
        company=heard,
        notes=["the longest steps: " + ", ".join(f"{step['step']} {step['seconds']:.1f} s" for step in slowest)],
    )


def _run(home: Path) -> tuple[Observed, dict[str, Any]]:
    return pipeline(home, "run", "--master", MASTER)
