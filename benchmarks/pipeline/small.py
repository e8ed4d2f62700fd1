"""A thousand new events on a lake of five million: a run from a cold start, and a watch that was there all the time."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from benchmarks.measure import Setting, company
from benchmarks.pipeline.homes import MANYDESKS, MASTER, grow, made_up, pipeline
from benchmarks.pipeline.observed import Session
from benchmarks.report import Fact, Section
from manydesks.pipeline import tables
from manydesks.pipeline.schemas import TABLES
from manydesks.pipeline.sources.ledger import heads

EVENTS_IN_ALL, NEW, ROUNDS = 5_000_000, 1_000, 7
COLD, TAKEN, GOLD = 40.0, 3.0, 20.0
#: no part of a benchmark waits longer for something
PATIENCE = 600.0


def small(setting: Setting) -> Section:
    home = made_up(setting.scratch, setting.of(EVENTS_IN_ALL))
    lake = home / "lake"
    with company() as heard:
        seen, _ = pipeline(home, "run", "--master", MASTER)
        spent = seen.cpu
        before = _files(lake)
        grow(home, NEW, seed=2)
        cold, _ = pipeline(home, "run", "--master", MASTER)
        spent += cold.cpu
        kept, all_files = len(before & _files(lake)), len(before)
        with _watch(home) as watch:
            watch.until(lambda told: _level(home, told))
            took = []
            for number in range(ROUNDS):
                grow(home, NEW, seed=3 + number)
                began, head = time.perf_counter(), heads(home / "office.db").events
                watch.until(lambda told, head=head: told["round"] == "events" and told["toSeq"] >= head)  # type: ignore[misc]
                took.append(time.perf_counter() - began)
            gold = watch.until(lambda told: told["round"] == "gold")["seconds"]
            idle = watch.idle(setting.of(20, least=2))
            spent += watch.session.cpu
        heard.unwaited = spent
    return Section(
        title=f"{NEW:,} new events on a lake of {heads(home / 'office.db').events:,}",
        lines=[
            Fact(
                what="a run from a cold start",
                value=f"{cold.wall:.1f} s, {cold.cpu:.1f} s of CPU",
                target=f"≤ {COLD:g} s",
                holds=cold.wall <= COLD,
            ),
            Fact(
                what="files of the lake that it left alone",
                value=f"{kept:,} of {all_files:,}",
                target="more than 9 of 10",
                holds=kept > 0.9 * all_files,
            ),
            Fact(
                what="inside watch: from the commit to silver",
                value=", ".join(f"{seconds:.1f} s" for seconds in took),
                target=f"≤ {TAKEN:g} s",
                holds=sorted(took)[len(took) // 2] <= TAKEN,
            ),
            Fact(what="inside watch: gold", value=f"{gold:.1f} s", target=f"≤ {GOLD:g} s", holds=gold <= GOLD),
            Fact(what="a watch with nothing to do", value=f"{idle:.1%} of a core"),
        ],
        company=heard,
    )


class Watching:
    """`pipeline watch`, as it tells of itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.session = Session(process.pid)
        self._process = process
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first thing it says that is this."""
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                told: dict[str, Any] = json.loads(self._lines.get(timeout=max(ends - time.monotonic(), 0.1)))
            except Empty:
                raise RuntimeError("the watch did not get there") from None
            if is_it(told):
                return told

    def idle(self, seconds: float) -> float:
        before = self.session.cpu
        time.sleep(seconds)
        return (self.session.cpu - before) / seconds

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


@contextmanager
def _watch(home: Path) -> Iterator[Watching]:
    command = [*MANYDESKS, "--json", "--home", str(home), "pipeline", "watch", "--master", MASTER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    watching = Watching(process)
    try:
        # something to say when it is there
        grow(home, 100, seed=99)
        yield watching
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
        watching.session.close()


def _level(home: Path, told: dict[str, Any]) -> bool:
    return bool(told["round"] == "gold" and told["toSeq"] >= heads(home / "office.db").events)


def _files(lake: Path) -> set[str]:
    found: set[str] = set()
    for spec in TABLES.values():
        if tables.exists(lake, spec):
            found |= {str(path) for path in tables.files(lake, spec)}
    return found
