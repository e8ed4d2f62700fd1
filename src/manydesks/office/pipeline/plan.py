"""When the history goes into the lake: decided from what is known, and carried out by the archivist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal

Mode = Literal["nightly", "watch", "off"]
#: a command of the pipeline
Job = Literal["run", "watch"]

MINUTE_MS = 60_000
#: an office that was just opened has better things to do, and a machine that comes up with a wrong clock has asked for
#: the time by then
SETTLED_MS = 5 * MINUTE_MS
#: somebody else works on the lake: no failure, and no hurry
BUSY_MS = {"run": 10 * MINUTE_MS, "watch": MINUTE_MS}
#: after the first failure; doubled for each further one
FIRST_MS = {"run": 10 * MINUTE_MS, "watch": 5_000}
#: never longer than this
LONGEST_MS = {"run": 40 * MINUTE_MS, "watch": 10 * MINUTE_MS}
#: of one night; then it is left to the next
TRIES = 4
#: a watch that ran so long was well: what ends it then is no repetition of an earlier failure. Some failures take
#: minutes to be sure of themselves (an object store that does not answer, a stream that falls again and again); one
#: that was killed did not fail by itself, and only has to have got past its start
WELL_MS = {"failed": 10 * MINUTE_MS, "killed": MINUTE_MS}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is known."""

    #: milliseconds UTC
    now: int
    #: since the office was opened
    open_ms: int
    mode: Mode
    #: when a night's run begins, `HH:MM` by the machine's own clock
    at: str
    #: the packages of the extra are there
    installed: bool
    #: what runs just now
    running: Job | None
    #: it was started with other settings than those in force
    outdated: bool = False
    #: the lake had all of the ledger then, or it was first thought of
    level_at: int
    #: what ran last ended then, and not as it should; None: it did, or nothing has run since the office was opened
    ended_at: int | None = None
    #: failures one after the other
    failures: int = 0
    #: what ran last found somebody else at work
    busy: bool = False
    #: events that the lake lacks; None: not asked yet
    behind: int | None = None


@dataclass(frozen=True, kw_only=True)
class Start:
    job: Job


@dataclass(frozen=True, kw_only=True)
class End:
    """What runs is not wanted any more."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How far the lake is behind has to be known first."""


@dataclass(frozen=True, kw_only=True)
class Skip:
    """The lake is level already: this night needs no run."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Until then, milliseconds UTC; None: until something else changes."""

    until: int | None = None


Decision = Start | End | Ask | Skip | Wait


def decide(known: Standing, zone: tzinfo | None = None) -> Decision:
    """What is to be done now. `zone`: where the machine is; None: as it says itself."""
    if known.running is not None:
        unwanted = known.mode == "off" or (known.running == "watch" and (known.mode != "watch" or known.outdated))
        return End() if unwanted else Wait()
    if known.mode == "off" or not known.installed:
        return Wait()
    job: Job = "watch" if known.mode == "watch" else "run"
    again = _again(known, job)
    if job == "watch":
        return Start(job=job) if again is None or known.now >= again else Wait(until=again)
    night = last_time(known.now, known.at, zone)
    if night <= known.level_at <= known.now:  # one that lies ahead is of a clock that was put back
        return Wait(until=next_time(known.now, known.at, zone))
    if known.failures >= TRIES and known.ended_at is not None and known.ended_at >= night:
        return Wait(until=next_time(known.now, known.at, zone))
    if known.open_ms < SETTLED_MS:
        return Wait(until=known.now + SETTLED_MS - known.open_ms)
    if again is not None and known.now < again:
        return Wait(until=again)
    if known.behind is None:
        return Ask()
    # what failed may have left silver or gold behind, though bronze is level
    return Start(job=job) if known.behind or known.failures else Skip()


def failures_after(job: Job, failures: int, *, ran_ms: int, killed: bool) -> int:
    """Failures one after the other, with the one that has just ended `job`; `failures`: those before it."""
    well = job == "watch" and ran_ms >= WELL_MS["killed" if killed else "failed"]
    return 1 if well else failures + 1


def last_time(now: int, at: str, zone: tzinfo | None = None) -> int:
    """The last moment at which the clock showed this time of the day."""
    return _time(now, at, zone, days=0 if _time(now, at, zone) <= now else -1)


def next_time(now: int, at: str, zone: tzinfo | None = None) -> int:
    """The next moment at which it will."""
    return _time(now, at, zone, days=1 if _time(now, at, zone) <= now else 0)


def _time(now: int, at: str, zone: tzinfo | None, days: int = 0) -> int:
    """By the calendar, not by 24 hours: a day on which clocks are changed is longer or shorter."""
    hour, minute = map(int, at.split(":"))
    today = datetime.fromtimestamp(now / 1000, zone)
    wanted = (today + timedelta(days=days)).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    return round(wanted.timestamp() * 1000)


def _again(known: Standing, job: Job) -> int | None:
    """Not before this; None: nothing speaks against now. A clock that was put back holds nothing up."""
    if known.ended_at is None or known.ended_at > known.now:
        return None
    if known.busy:
        return known.ended_at + BUSY_MS[job]
    return known.ended_at + min(FIRST_MS[job] << max(known.failures - 1, 0), LONGEST_MS[job])
