"""Homes with a made-up history, as `manydesks pipeline simulate` makes them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.pipeline.observed import Observed, observe
from manydesks.settings.home import Home
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock
from manydesks.testing.history import DAY_MS, Shape, history

MANYDESKS = (sys.executable, "-m", "manydesks")
AGENTS, DAYS, SEED = 12, 60, 1
MASTER = "local[2]"


def made_up(folder: Path, events: int) -> Path:
    """A home with about so many events; made once and kept for the other scenarios of a run."""
    home = folder / f"home-{events}"
    if not home.exists():
        words = ("--events", str(events), "--agents", str(AGENTS), "--days", str(DAYS), "--seed", str(SEED))
        observe((*MANYDESKS, "--home", home, "pipeline", "simulate", *words))
    return home


def pipeline(home: Path, *words: str) -> tuple[Observed, dict[str, Any]]:
    """A command of the pipeline, on two cores, and what it says."""
    seen = observe((*MANYDESKS, "--json", "--home", home, "pipeline", *words))
    return seen, json.loads(seen.stdout)


def grow(home: Path, events: int, *, seed: int) -> None:
    """So many further events, of today: new traces, as a day's work brings them."""
    asyncio.run(_tell(Home(home), events, seed))


async def _tell(home: Home, events: int, seed: int) -> None:
    # what was made up ends with yesterday
    begins = int(time.time() * 1000) // DAY_MS * DAY_MS
    shape = Shape(events=max(events * 2, 200), agents=AGENTS, days=1, seed=seed, begins=begins)
    store = Store(home.office_db, clock=ManualClock(now=begins))
    try:
        own = (event for event in history(shape) if event.kind != "agent_added")
        await store.tell_past([(event.at, event.text, event.told()) for event in islice(own, events)])
    finally:
        store.close()
