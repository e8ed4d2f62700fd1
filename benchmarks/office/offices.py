"""A real office for one scenario, with agents of `rehearsal`, and what its process takes."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manydesks.settings.home import Home
from manydesks.store.reader import Reader
from manydesks.store.store import Store
from manydesks.testing.office import OfficeProcess

WATCHED = Path(__file__).with_name("watched.py")


PLAIN = (sys.executable, "-m", "manydesks")


class Watched(OfficeProcess):
    """`manydesks up` whose process is looked at; with clocks in it (see `watched.py`) unless it is to be `plain`."""

    def __init__(
        self, folder: Path, plan: dict[str, Any] | None = None, *, settings: dict[str, str], plain: bool = False
    ) -> None:
        self._seen = folder / "seen.json"
        environ = {**os.environ, **settings, "BENCH_SEEN": str(self._seen)}
        if plan is not None:
            (folder / "plan.json").write_text(json.dumps(plan))
            environ["BENCH_PLAN"] = str(folder / "plan.json")
        command = PLAIN if plain else (sys.executable, str(WATCHED))
        super().__init__(folder / "home", environ, command=command)

    def cpu(self) -> float:
        """Seconds of CPU, all threads."""
        # the clock of another process, as Linux numbers it: to the nanosecond, where /proc counts hundredths
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident(self) -> float:
        """MB in memory."""
        status = (Path("/proc") / str(self.pid) / "status").read_text().splitlines()
        (line,) = (line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024 / 1e6

    def close(self) -> dict[str, Any]:
        """End an office with clocks; when messages were `stored` and runs had `begun`, and what the `writer` took."""
        self.stop()
        seen: dict[str, Any] = json.loads(self._seen.read_text())
        return seen

    def finish(self, messages: int, seconds: float = 3600.0) -> None:
        """Until so many messages have ended well, and their answers are out; looked at rarely: looking costs too."""
        reader = self.door.reader()
        try:
            deadline = time.monotonic() + seconds
            while (counts := reader.queue_status())["completed"] < messages or counts["outgoing"]:
                if counts["dead"] or time.monotonic() > deadline:
                    raise AssertionError(f"it does not end well: {counts} {self.log()[-2000:]}")
                time.sleep(0.1)
        finally:
            reader.close()


@contextmanager
def watched(
    agents: Sequence[str],
    plan: dict[str, Any] | None = None,
    *,
    settings: dict[str, str] | None = None,
    plain: bool = False,
) -> Iterator[Watched]:
    """Open, with these agents; in a short path, as sockets want it. What is still open at the end is killed."""
    with prepared(agents) as folder:
        made = Watched(folder, plan, settings=settings or {}, plain=plain)
        made.start()
        try:
            yield made
        finally:
            made.kill()


@contextmanager
def prepared(agents: Sequence[str]) -> Iterator[Path]:
    """A folder with a `home` in which these agents are known; no office is open."""
    with tempfile.TemporaryDirectory(prefix="md") as folder:
        home = Home(Path(folder) / "home")
        home.prepare()
        asyncio.run(_hire(home, agents))
        yield Path(folder)


async def _hire(home: Home, agents: Sequence[str]) -> None:
    store = Store(home.office_db, durability="crash")
    try:
        for agent in agents:
            await store.add_agent(id=agent, provider="rehearsal")
    finally:
        store.close()


def named(count: int) -> list[str]:
    return [f"a{number}" for number in range(count)]


def part_of(values: Sequence[float], part: float) -> float:
    """The value below which this part of them lies."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * part))]


def spread(values: Sequence[float], unit: str = "ms") -> str:
    middle = statistics.median(values)
    return f"p50 {middle:.1f} {unit}, p99 {part_of(values, 0.99):.1f} {unit}, the longest {max(values):.1f} {unit}"


def events(reader: Reader, kind: str) -> Iterator[dict[str, Any]]:
    """Every event of a kind, page by page."""
    after = 0
    while page := reader.events(after, 5_000, [kind]):
        yield from page
        after = page[-1]["seq"]
