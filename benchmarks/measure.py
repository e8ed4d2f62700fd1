"""Measuring: every contestant in turn, round after round, so that a busy minute is everybody's."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one contestant did in one round."""

    operations: int
    #: seconds on the wall
    wall: float
    #: seconds of CPU, of all threads of this process
    cpu: float

    @property
    def rate(self) -> float:
        return self.operations / self.wall

    @property
    def micros(self) -> float:
        """CPU of one operation."""
        return self.cpu / self.operations * 1e6


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How much is done."""

    #: on the disk that is measured
    scratch: Path
    rounds: int
    #: of the full number of operations; 1 but for a quick look
    scale: float

    def of(self, operations: int, *, least: int = 1) -> int:
        return max(least, round(operations * self.scale))


@dataclass(frozen=True, kw_only=True)
class Contestant:
    name: str
    #: sets up in an empty folder, warms up, measures
    play: Callable[[Path], Sample]
    #: what is safe once its call has returned; how often a message may be handed out
    promise: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The samples of one contestant, a sample for each round."""

    contestant: Contestant
    samples: tuple[Sample, ...]

    @property
    def rate(self) -> float:
        return statistics.median(sample.rate for sample in self.samples)

    @property
    def micros(self) -> float:
        return statistics.median(sample.micros for sample in self.samples)

    def times(self, other: Result) -> float:
        """How many times the rate of another, compared round by round."""
        pairs = zip(self.samples, other.samples, strict=True)
        return statistics.median(mine.rate / theirs.rate for mine, theirs in pairs)

    def cpu_times(self, other: Result) -> float:
        """How many times the CPU of another, compared round by round."""
        pairs = zip(self.samples, other.samples, strict=True)
        return statistics.median(mine.micros / theirs.micros for mine, theirs in pairs)


class Stopwatch:
    """`with Stopwatch() as watch: …` and then `watch.sample(operations)`. The collector leaves old objects alone."""

    def __enter__(self) -> Stopwatch:
        gc.collect()
        gc.freeze()
        self._wall = time.perf_counter()
        self._cpu = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu = time.process_time() - self._cpu
        self._wall = time.perf_counter() - self._wall
        gc.unfreeze()

    def sample(self, operations: int) -> Sample:
        return Sample(operations=operations, wall=self._wall, cpu=self._cpu)


def interleave(setting: Setting, contestants: Sequence[Contestant]) -> list[Result]:
    """Each round everybody once, from an empty folder; who goes first moves on by one, so nobody always follows
    the same one."""
    samples: list[list[Sample]] = [[] for _ in contestants]
    for number in range(setting.rounds):
        for place in range(len(contestants)):
            which = (place + number) % len(contestants)
            with TemporaryDirectory(dir=setting.scratch) as folder:
                samples[which].append(contestants[which].play(Path(folder)))
    return [
        Result(contestant=contestant, samples=tuple(own)) for contestant, own in zip(contestants, samples, strict=True)
    ]


class Company:
    """How much of the machine others took meanwhile."""

    #: the share above which rates say more about them than about us
    LOADED = 0.10

    def __init__(self) -> None:
        #: 0 to 1; 0 where the machine does not say
        self.share = 0.0
        #: seconds of CPU of our own processes that nobody waited for: those of a sandbox that was ended as a whole
        self.unwaited = 0.0

    @property
    def is_loud(self) -> bool:
        return self.share > self.LOADED


@contextmanager
def company() -> Iterator[Company]:
    heard = Company()
    busy, own, began = _busy_seconds(), own_seconds(), time.perf_counter()
    yield heard
    capacity = (time.perf_counter() - began) * (os.cpu_count() or 1)
    if busy is not None and (after := _busy_seconds()) is not None:
        heard.share = max(0.0, (after - busy) - (own_seconds() - own) - heard.unwaited) / capacity


def own_seconds() -> float:
    """Of this process and of the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds() -> float | None:
    """Of every processor since the boot, what a hypervisor took away included; Linux only."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(ticks) for ticks in first[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
