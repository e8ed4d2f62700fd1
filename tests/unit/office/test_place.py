"""What a place forgets when a run begins, and which idle runners have to leave."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from manydesks.office.place import SETTLE_MS, Place, to_leave


class Desk:
    def __init__(self, keeps_process: bool) -> None:
        self.keeps_process = keeps_process
        self.inside = not keeps_process
        self.seated = True


def place(name: str, freed_at: int, *, process: bool = True, busy: bool = False) -> Place:
    """Of a place only these count."""
    stands_for: Any = name
    made = Place(seat=stands_for, desk=cast("Any", Desk(process)), taker=stands_for)
    made.claimed = stands_for if busy else None
    made.freed_at = freed_at
    return made


@pytest.mark.parametrize(("most", "leaving"), [(0, "abc"), (1, "ab"), (2, "a"), (3, ""), (9, "")])
def test_the_longest_idle_leaves_first(most: int, leaving: str) -> None:
    places = [place("c", 30), place("a", 10), place("b", 20)]
    assert [found.seat for found in to_leave(places, most=most, now=100_000)] == list(leaving)


def test_only_processes_without_work_count() -> None:
    places = [place("busy", 1, busy=True), place("inside", 2, process=False), place("a", 3), place("b", 4)]
    assert to_leave(places, most=2, now=100_000) == []
    assert [found.seat for found in to_leave(places, most=1, now=100_000)] == ["a"]


def test_nobody_leaves_a_moment_after_the_answer() -> None:
    places = [place("a", 10), place("b", 20)]
    assert [found.seat for found in to_leave(places, most=0, now=10 + SETTLE_MS)] == ["a"]
    assert to_leave(places, most=0, now=9 + SETTLE_MS) == []


async def test_a_run_begins_without_the_verdict_on_the_last_one() -> None:
    """The lane is free as soon as the store says so, which is before the place was freed."""
    stands_for: Any = object()
    made = place("a", 10, busy=True)
    rung: list[str] = []
    made.verdict = stands_for
    made.limit = asyncio.get_running_loop().call_soon(rung.append, "the last one's time is over")
    made.begin(stands_for, stands_for)
    assert (made.claimed, made.watch, made.verdict, made.limit) == (stands_for, stands_for, None, None)
    await asyncio.sleep(0)
    assert rung == []


def test_of_those_inside_the_host_only_so_many_stay_either() -> None:
    places = [place("busy", 1, process=False, busy=True), place("process", 2)]
    places += [place("a", 3, process=False), place("b", 4, process=False)]
    assert [found.seat for found in to_leave(places, most=1, now=100_000, inside=True)] == ["a"]


def test_a_place_is_forgotten_when_nobody_sits_there_and_nothing_is_under_way() -> None:
    left = place("a", 10)
    assert not left.is_left(100_000)
    cast("Any", left.desk).seated = False
    assert left.is_left(100_000)
    assert not left.is_left(10 + SETTLE_MS - 1)
    for name in ("belled", "judged"):
        setattr(left, name, True)
        assert not left.is_left(100_000)
        setattr(left, name, False)
    left.claimed = cast("Any", "work")
    assert not left.is_left(100_000)
