"""What may be spent: caps in dollars, tokens and runs, for an agent's day, the office's day and a trace.

A run reserves what it will probably use before it begins, and what it used takes the place of that when it ends. Money
is counted in whole millionths of a dollar, so that sums are exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

from manydesks.domain.errors import BadInput

Unit = Literal["usd", "tokens", "runs"]
UNITS: tuple[Unit, ...] = ("usd", "tokens", "runs")
Scope = Literal["agent", "office", "trace"]

#: the hold reason of a message whose trace has no room
HOLD_REASON = "budget"

MICROS = 1_000_000
#: the smallest cap in dollars: what is less would be counted as 0, which is none
LEAST = 1 / MICROS
#: no cap, and no usage of one run, is taken for more than this; sums of these fit into 64 bits
MOST = 10**15
#: how many of an agent's last runs say what the next one will use
SAMPLE = 20

SPELLING = "amounts a day such as '2usd/day, 200000tokens/day, 50runs/day', or 'none'"
_AMOUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*(usd|tokens|runs)\s*/\s*day", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Of each unit so many, dollars in millionths. As a cap: 0 is none. As a use: None is unknown, not 0."""

    usd: int | None = 0
    tokens: int | None = 0
    runs: int | None = 0

    def of(self, unit: Unit) -> int | None:
        return {"usd": self.usd, "tokens": self.tokens, "runs": self.runs}[unit]

    @property
    def any(self) -> bool:
        return bool(self.usd or self.tokens or self.runs)


NOTHING = Amounts()


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What the settings allow, and what a run reserves at first."""

    #: of one agent in a day, unless the agent has a budget of its own
    agent: Amounts = NOTHING
    #: of all agents together in a day
    office: Amounts = NOTHING
    #: of all that follows from one arrival
    trace: Amounts = NOTHING
    #: what a run reserves while nothing is known of its agent
    first: Amounts = Amounts(runs=1)
    #: where a day begins
    time_zone: str = "UTC"

    def of_agent(self, own: Mapping[str, Any] | None) -> Amounts:
        """The agent's own amounts, and the office's where it has none; an own 0 lifts the office's."""
        if not own:
            return self.agent
        return Amounts(**{unit: amount(unit, own[unit]) if unit in own else self.agent.of(unit) for unit in UNITS})


NO_BUDGET = Budget()


@dataclass(frozen=True, kw_only=True)
class Book:
    """What was spent and is reserved in one scope, and what may be."""

    scope: Scope
    #: the agent's id, the trace's; empty for the office
    subject: str
    #: empty for a trace
    day: str
    cap: Amounts
    spent: Amounts = NOTHING
    reserved: Amounts = NOTHING
    #: how often the owner has allowed as much again
    extra: int = 0
    #: how often the owner was asked
    asked: int = 0

    def limit(self, unit: Unit) -> int:
        """What may be spent in all; 0: there is no cap."""
        return (self.cap.of(unit) or 0) * (1 + self.extra)


@dataclass(frozen=True, kw_only=True)
class Go:
    """There is room: this is reserved."""

    reserve: Amounts


@dataclass(frozen=True, kw_only=True)
class Wait:
    """There will be room if the runs under way use less than they have reserved."""


@dataclass(frozen=True, kw_only=True)
class Over:
    """There is no room."""

    book: Book
    unit: Unit
    #: what the run would have reserved
    amount: int

    @property
    def reason(self) -> str:
        """A sentence for people."""
        book, limit = self.book, self.book.limit(self.unit)
        who = {"agent": book.subject, "office": "The office", "trace": "What follows from this message"}[book.scope]
        when = f" on {book.day}" if book.day else ""
        spent = shown(self.unit, book.spent.of(self.unit) or 0)
        need = "" if self.unit == "runs" else f", and the next run needs about {shown(self.unit, self.amount)}"
        return f"{who} has used {spent} of {shown(self.unit, limit)}{when}{need}."


def decide(books: Sequence[Book], wanted: Amounts) -> Go | Wait | Over:
    """Whether a run that will probably use `wanted` may begin; a unit that is not known binds nothing.

    What is reserved is never more than a cap, so a cap lets at least one run begin that is alone.
    """
    reserve: dict[Unit, int] = {}
    for unit in UNITS:
        amount = wanted.of(unit)
        limits = [limit for book in books if (limit := book.limit(unit))]
        reserve[unit] = 0 if amount is None else min([amount, *limits])
    waits = False
    for book in books:
        for unit in UNITS:
            limit = book.limit(unit)
            if not limit or wanted.of(unit) is None:
                continue
            spent = book.spent.of(unit) or 0
            if spent + reserve[unit] > limit or spent >= limit:
                return Over(book=book, unit=unit, amount=reserve[unit])
            waits = waits or spent + (book.reserved.of(unit) or 0) + reserve[unit] > limit
    return Wait() if waits else Go(reserve=Amounts(**reserve))


def left(book: Book, unit: Unit, own: int) -> int | None:
    """What a run that has reserved `own` of it may still use of this book, at the most; None: there is no cap."""
    limit = book.limit(unit)
    if not limit:
        return None
    return limit - (book.spent.of(unit) or 0) - max(0, (book.reserved.of(unit) or 0) - own)


def expected(runs: Sequence[tuple[int | None, int | None]], first: Amounts) -> Amounts:
    """What the next run will probably use, from (millionths, tokens) of the last ones: the 95th percentile.

    A unit that none of them knows is not known of the next one either; without any run it is `first`.
    """
    if not runs:
        return first
    known = {"usd": [usd for usd, _ in runs if usd is not None], "tokens": [t for _, t in runs if t is not None]}
    return Amounts(**{unit: percentile(values) if values else None for unit, values in known.items()}, runs=1)


def percentile(values: Sequence[int], part: float = 0.95) -> int:
    """The smallest of the values that is not below that part of them."""
    return sorted(values)[math.ceil(part * len(values)) - 1]


def micros(usd: float | None) -> int | None:
    """Dollars in millionths, never too few of them."""
    # 0.1 * 10**6 is a hair above 100000
    return None if usd is None else min(math.ceil(round(min(usd, MOST) * MICROS, 3)), MOST)


def amount(unit: Unit, value: float) -> int:
    """A number as people write it, as it is counted."""
    return (micros(value) or 0) if unit == "usd" else min(int(value), MOST)


def shown(unit: Unit, value: int) -> str:
    if unit == "usd":
        return f"${value / MICROS:,.4f}".rstrip("0").ljust(len(f"${value // MICROS:,}.") + 2, "0")
    return f"{value:,} {unit[:-1] if value == 1 else unit}"


def parse_budget(text: str) -> dict[str, float | int]:
    """An agent's own caps, all for a day, as `agents.budget` keeps them: `{"usd": 2.0, "tokens": 200000, "runs": 50}`.

    A unit that is not named is the office's; 0 is no cap, whatever the office's is. `none`: all are the office's.
    Raises `BadInput` for what is not spelled like that.
    """
    if text.strip().lower() in ("none", ""):
        return {}
    found: dict[str, float | int] = {}
    for part in text.split(","):
        match = _AMOUNT.fullmatch(part.strip())
        if match is None:
            raise BadInput(f"'{part.strip()[:60]}' is not an amount of a budget; allowed are {SPELLING}.")
        number, unit = match[1].replace("_", ""), match[2].lower()
        if unit in found:
            raise BadInput(f"The budget names {unit} twice; allowed are {SPELLING}.")
        if unit != "usd" and "." in number:
            raise BadInput(f"A budget counts whole {unit}, not {number}.")
        value = float(number) if unit == "usd" else int(number)
        if value > MOST / MICROS:
            raise BadInput(f"A budget's amounts are at most {MOST // MICROS:,}, not {number[:40]}.")
        if unit == "usd" and 0 < value < LEAST:
            raise BadInput(f"A budget's dollars are 0, which is no cap, or at least {LEAST:f}, not {number[:40]}.")
        found[unit] = value
    return found


def readable_budget(budget: Mapping[str, Any] | None) -> str:
    """As `parse_budget` reads it."""
    given = {unit: value for unit in UNITS if (value := (budget or {}).get(unit)) is not None}
    numbers = {unit: f"{value:f}".rstrip("0").rstrip(".") if unit == "usd" else value for unit, value in given.items()}
    return ", ".join(f"{number}{unit}/day" for unit, number in numbers.items()) or "none"


def zone(name: str) -> tzinfo:
    """Raises ValueError for a name that is none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ValueError(f"there is no time zone '{name}'") from error


def day_of(now: int, time_zone: str) -> str:
    """The date, there, of a moment in milliseconds UTC."""
    # asked for every run; no zone begins its day within a minute
    return _day_of(now // 60_000, time_zone)


@lru_cache(maxsize=16)
def _day_of(minute: int, time_zone: str) -> str:
    return datetime.fromtimestamp(minute * 60, zone(time_zone)).date().isoformat()


def day_ends(now: int, time_zone: str) -> int:
    """The first moment of the next day there, in milliseconds UTC."""
    there = zone(time_zone)
    tomorrow = datetime.fromtimestamp(now / 1000, there).date() + timedelta(days=1)
    return math.ceil(datetime.combine(tomorrow, time(), there).timestamp() * 1000)
