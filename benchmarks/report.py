"""The table: figures, targets, verdicts."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks.measure import Company, Result


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was promised of a line; None: nothing about that figure."""

    rate: float | None = None
    #: CPU of one operation. Without one, a rate asks for the CPU that it leaves to a process with one busy core
    micros: float | None = None
    #: at least so many times the rate of the one it is compared with
    times: float | None = None
    #: at most so many times its CPU
    cpu_times: float | None = None
    #: the rate or the CPU: one of them is enough
    either: bool = False

    def __str__(self) -> str:
        parts = [
            f"≥ {self.rate:,.0f}/s" if self.rate else "",
            f"≤ {self.micros:g} µs" if self.micros else "",
            f"≥ {self.times:g} x" if self.times else "",
            f"≤ {self.cpu_times:g} x CPU" if self.cpu_times else "",
        ]
        return (" or " if self.either else ", ").join(part for part in parts if part)

    def verdict(self, line: Line, company: Company) -> str:
        """`ok` or `missed`. On a loaded machine CPU and ratios decide, and the word says so."""
        slow = self.rate is not None and line.rate < self.rate
        budget = self.micros or (1e6 / self.rate if self.rate else None)
        costly = budget is not None and line.micros > budget
        if self.either:
            return "ok" if not (slow and costly) else "missed"
        behind = self.times is not None and (line.times or 0) < self.times
        dear = self.cpu_times is not None and (line.cpu_times or 0) > self.cpu_times
        if self.cpu_times is not None and self.times is not None:
            # two views of one thing
            behind, dear = (False, dear) if company.is_loud else (behind, False)
        if behind or dear or (costly and (self.micros is not None or slow)):
            return "missed"
        if slow:
            return "ok by CPU" if company.is_loud else "missed"
        return "ok"


@dataclass(frozen=True, kw_only=True)
class Line:
    what: str
    rate: float
    micros: float
    times: float | None = None
    cpu_times: float | None = None
    #: whom it is compared with
    beside: str = ""
    promise: str = ""
    target: Target | None = None


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A figure that is not a rate, or a thing that was checked."""

    what: str
    value: str
    #: what was asked for, and whether it is so
    target: str = ""
    holds: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Section:
    title: str
    lines: list[Line | Fact]
    company: Company
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        out = [f"{self.title}   (others took {self.company.share:.0%} of the machine)"]
        out += [f"  {_text(line, self.company)}".rstrip() for line in self.lines]
        out += [f"  * {note}" for note in self.notes]
        return "\n".join(out)

    @property
    def missed(self) -> list[str]:
        return [line.what for line in self.lines if _word(line, self.company) == "missed"]


def line(
    result: Result, *, beside: Result | None = None, target: Target | None = None, what: str | None = None
) -> Line:
    return Line(
        what=what or result.contestant.name,
        rate=result.rate,
        micros=result.micros,
        times=result.times(beside) if beside else None,
        cpu_times=result.cpu_times(beside) if beside else None,
        beside=beside.contestant.name.partition(":")[0] if beside else "",
        promise=result.contestant.promise,
        target=target,
    )


def machine(began: tuple[float, float, float], rounds: int, cpu: float, more: Sequence[str]) -> str:
    """What the figures were taken on; nothing that names the machine. `cpu`: seconds that it took."""
    loads = [" ".join(f"{load:.2f}" for load in loads) for loads in (began, os.getloadavg())]
    return "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores, {platform.system()} {platform.machine()}; "
            f"Python {platform.python_version()}; {rounds} rounds, medians",
            *more,
            f"load average at the start {loads[0]}, at the end {loads[1]}; took {cpu:.0f} s of CPU",
        ]
    )


FACTS = f"  {'':<46}{'measured':<74}{'target':<34}verdict"
HEAD = f"  {'':<46}{'rate/s':>10}{'CPU µs':>9}   {'beside another of the same rounds':<52}{'target':<34}verdict"


def _text(line: Line | Fact, company: Company) -> str:
    if isinstance(line, Fact):
        return f"{line.what:<46}{line.value:<74}{line.target:<34}{_word(line, company)}"
    beside = ""
    if line.times is not None and line.cpu_times is not None:
        beside = f"{line.times:.2f} x rate, {line.cpu_times:.2f} x CPU of {line.beside}"
    first = f"{line.what:<46}{line.rate:>10,.0f}{line.micros:>9.1f}   "
    asked = str(line.target) if line.target else ""
    text = f"{first}{beside:<52}{asked:<34}{_word(line, company)}"
    return f"{text.rstrip()}\n      {line.promise}" if line.promise else text


def _word(line: Line | Fact, company: Company) -> str:
    if isinstance(line, Fact):
        return "" if line.holds is None else "ok" if line.holds else "missed"
    return line.target.verdict(line, company) if line.target else ""
