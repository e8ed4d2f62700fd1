"""When the history goes into the lake: a table of what is known, and what is decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from manydesks.office.pipeline.plan import (
    BUSY_MS,
    LONGEST_MS,
    MINUTE_MS,
    SETTLED_MS,
    TRIES,
    Ask,
    Decision,
    End,
    Job,
    Skip,
    Standing,
    Start,
    Wait,
    decide,
    failures_after,
    last_time,
    next_time,
)

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def at(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


NIGHT = at("2026-03-10T03:00")
#: an office that has been open for a day, with a lake that was level two nights ago
NIGHTLY = Standing(
    now=NIGHT + 1,
    open_ms=DAY_MS,
    mode="nightly",
    at="03:00",
    installed=True,
    running=None,
    level_at=NIGHT - DAY_MS + 5,
)
WATCH = replace(NIGHTLY, mode="watch", now=NIGHT + 12 * HOUR_MS)
TOMORROW = Wait(until=NIGHT + DAY_MS)


@pytest.mark.parametrize(
    ("known", "decision"),
    [
        # a night
        (NIGHTLY, Ask()),
        (replace(NIGHTLY, behind=3), Start(job="run")),
        (replace(NIGHTLY, behind=0), Skip()),
        (replace(NIGHTLY, now=NIGHT - 1), Wait(until=NIGHT)),
        (replace(NIGHTLY, now=NIGHT), Ask()),
        (replace(NIGHTLY, level_at=NIGHT), TOMORROW),
        (replace(NIGHTLY, level_at=NIGHT, now=NIGHT + 5 * HOUR_MS), TOMORROW),
        (replace(NIGHTLY, running="run"), Wait()),
        # the machine was off: made up for, but not in the first minutes
        (
            replace(NIGHTLY, now=NIGHT + 6 * HOUR_MS, open_ms=1_000),
            Wait(until=NIGHT + 6 * HOUR_MS + SETTLED_MS - 1_000),
        ),
        (replace(NIGHTLY, now=NIGHT + 6 * HOUR_MS, open_ms=SETTLED_MS, behind=1), Start(job="run")),
        (replace(NIGHTLY, now=NIGHT + 6 * HOUR_MS, open_ms=SETTLED_MS, behind=0), Skip()),
        # a failed run is tried again, not for ever
        (replace(NIGHTLY, ended_at=NIGHT, failures=1), Wait(until=NIGHT + 10 * MINUTE_MS)),
        (replace(NIGHTLY, ended_at=NIGHT, failures=2), Wait(until=NIGHT + 20 * MINUTE_MS)),
        (replace(NIGHTLY, ended_at=NIGHT, failures=1, now=NIGHT + 10 * MINUTE_MS, behind=2), Start(job="run")),
        (replace(NIGHTLY, ended_at=NIGHT, failures=1, now=NIGHT + 10 * MINUTE_MS, behind=0), Start(job="run")),
        (replace(NIGHTLY, ended_at=NIGHT, failures=TRIES, now=NIGHT + HOUR_MS, behind=2), TOMORROW),
        (replace(NIGHTLY, ended_at=NIGHT - DAY_MS, failures=TRIES, behind=2), Start(job="run")),
        # somebody else's run is no failure
        (replace(NIGHTLY, ended_at=NIGHT, busy=True), Wait(until=NIGHT + BUSY_MS["run"])),
        (replace(NIGHTLY, ended_at=NIGHT, busy=True, now=NIGHT + BUSY_MS["run"], behind=0), Skip()),
        # a clock that was put back holds nothing up
        (replace(NIGHTLY, level_at=NIGHT + 300 * DAY_MS, behind=1), Start(job="run")),
        (replace(NIGHTLY, ended_at=NIGHT + 300 * DAY_MS, failures=3, behind=1), Start(job="run")),
        # a watch
        (WATCH, Start(job="watch")),
        (replace(WATCH, open_ms=0), Start(job="watch")),
        (replace(WATCH, running="watch"), Wait()),
        (replace(WATCH, running="watch", outdated=True), End()),
        (replace(WATCH, running="run", outdated=True), Wait()),
        (replace(WATCH, ended_at=WATCH.now, failures=0), Wait(until=WATCH.now + 5_000)),
        (replace(WATCH, ended_at=WATCH.now, failures=1), Wait(until=WATCH.now + 5_000)),
        (replace(WATCH, ended_at=WATCH.now, failures=3), Wait(until=WATCH.now + 20_000)),
        (replace(WATCH, ended_at=WATCH.now, failures=50), Wait(until=WATCH.now + LONGEST_MS["watch"])),
        (replace(WATCH, ended_at=WATCH.now, busy=True), Wait(until=WATCH.now + BUSY_MS["watch"])),
        (replace(WATCH, ended_at=WATCH.now - 5_000, failures=1), Start(job="watch")),
        # not wanted
        (replace(NIGHTLY, mode="off", behind=9), Wait()),
        (replace(WATCH, mode="off", running="watch"), End()),
        (replace(NIGHTLY, mode="off", running="run"), End()),
        (replace(NIGHTLY, running="watch"), End()),
        (replace(NIGHTLY, installed=False, behind=9), Wait()),
        (replace(WATCH, installed=False), Wait()),
    ],
)
def test_what_is_decided(known: Standing, decision: Decision) -> None:
    assert decide(known, UTC) == decision


@pytest.mark.parametrize(
    ("job", "ran_ms", "killed", "failures"),
    [
        # one that was killed did not fail by itself: once past its start it was well
        ("watch", 90_000, True, 1),
        ("watch", MINUTE_MS, True, 1),
        ("watch", MINUTE_MS - 1, True, 5),
        # an object store that does not answer takes longer than a minute to be given up, each time
        ("watch", 90_000, False, 5),
        ("watch", 10 * MINUTE_MS - 1, False, 5),
        ("watch", 10 * MINUTE_MS, False, 1),
        # the tries of a night are counted, however long each took
        ("run", 5 * HOUR_MS, True, 5),
        ("run", 5 * HOUR_MS, False, 5),
    ],
)
def test_a_watch_that_was_well_begins_to_count_anew(job: Job, ran_ms: int, killed: bool, failures: int) -> None:
    assert failures_after(job, 4, ran_ms=ran_ms, killed=killed) == failures
    assert failures_after(job, 0, ran_ms=ran_ms, killed=killed) == 1


@pytest.mark.parametrize(
    ("now", "last", "following"),
    [
        ("2026-06-01T12:00", "2026-06-01T03:00", "2026-06-02T03:00"),
        ("2026-06-01T02:59", "2026-05-31T03:00", "2026-06-01T03:00"),
        ("2026-06-01T03:00", "2026-06-01T03:00", "2026-06-02T03:00"),
        # in the nights in which Berlin changes its clocks a day has 23 hours, or 25
        ("2026-03-29T12:00", "2026-03-29T03:00", "2026-03-30T03:00"),
        ("2026-03-28T12:00", "2026-03-28T03:00", "2026-03-29T03:00"),
        ("2026-10-25T12:00", "2026-10-25T03:00", "2026-10-26T03:00"),
    ],
)
def test_a_time_of_the_day_is_one_of_the_calendar(now: str, last: str, following: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    moment = at(now, "Europe/Berlin")
    assert last_time(moment, "03:00", zone) == at(last, "Europe/Berlin")
    assert next_time(moment, "03:00", zone) == at(following, "Europe/Berlin")


def test_the_machine_knows_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        moment = at("2026-06-01T12:00", "America/New_York")
        assert last_time(moment, "03:00") == at("2026-06-01T03:00", "America/New_York")
    finally:
        monkeypatch.undo()
        time.tzset()
