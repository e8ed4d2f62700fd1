"""The time of a wait counts from when what it waits for may begin: never while that is paused, held or closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.budget import Amounts, Budget
from manydesks.domain.loopguard import Limits
from manydesks.store.waits import WAIT_MS

CHAIN = "[@ada: draft] -> [@bob: review] -> [@cyd: publish]"

Move = Callable[[Any], Awaitable[Any]]
PAUSES: dict[str, tuple[Move, Move]] = {
    "the agent": (lambda store: store.pause("ada"), lambda store: store.resume("ada")),
    "the office": (lambda store: store.pause_office(), lambda store: store.resume_office()),
}


async def sent(office: Any, text: str) -> list[str]:
    return [message["messageId"] for message in (await office.send(text)).messages]


async def over(office: Any, milliseconds: int) -> None:
    """So much later, with a look at what is due."""
    office.clock.advance(milliseconds)
    await office.claim()


@pytest.mark.parametrize("whose", PAUSES)
async def test_nobody_dies_of_a_pause(office: Any, whose: str) -> None:
    pause, resume = PAUSES[whose]
    await pause(office.store)
    first, second, third = await sent(office, CHAIN)
    for _ in range(3):
        await over(office, WAIT_MS)
    assert office.statuses() == ["pending", "held", "held"]
    await office.reopen()
    await over(office, WAIT_MS - 1)
    await resume(office.store)
    # the whole time from here on, also over the moment at which the old one would have ended
    (claimed,) = await office.claim()
    office.clock.advance(WAIT_MS - 1)
    assert await office.claim() == []
    assert office.statuses() == ["processing", "held", "held"]
    assert await office.store.next_timer() == 1
    await office.desk(claimed).say("a draft", to=first).ack(first).take()
    assert [office.status(id) for id in (second, third)] == ["pending", "held"]


async def test_the_time_is_over_all_the_same_when_what_runs_takes_too_long(office: Any) -> None:
    _, second, third = await sent(office, CHAIN)
    await office.begin()
    # a pause does not stop what has begun
    await office.store.pause("ada")
    await over(office, WAIT_MS)
    assert [office.status(id) for id in (second, third)] == ["dead", "dead"]


async def test_a_join_waits_for_a_paused_agent(office: Any) -> None:
    *_, join = await sent(office, "[@ada: one] [@bob: two] => [@cyd: sum up]")
    await office.store.pause("ada")
    claimed, desk = await office.begin()
    await desk.say("second", to=claimed.messages[0].message_id).ack(claimed.messages[0].message_id).take()
    await over(office, WAIT_MS)
    assert office.status(join) == "held"
    assert office.row("select hold_until from messages where message_id = ?", join) == office.row(
        "select deadline from joins"
    )
    await office.store.resume("ada")
    await office.begin()
    await over(office, WAIT_MS)
    assert office.row("select status from joins") == ("timed_out",)


async def test_nobody_dies_of_a_budgets_pause(office: Any) -> None:
    office.store.budget = Budget(agent=Amounts(runs=1))
    before = await office.sent("hello", to="ada")
    claimed, desk = await office.begin()
    await desk.ack(before).take()
    _, second, _ = await sent(office, CHAIN)
    assert await office.claim() == []
    assert office.one("select paused from agents where id = 'ada'") == 2
    office.clock.advance(WAIT_MS - 1)
    # a higher cap: it may begin, and what waits has its time from now on
    office.store.budget = Budget(agent=Amounts(runs=100))
    (claimed,) = await office.claim()
    assert claimed.agent == "ada"
    office.clock.advance(WAIT_MS - 1)
    assert await office.claim() == []
    assert office.status(second) == "held"


async def test_nobody_dies_behind_a_message_that_its_budget_holds(office: Any) -> None:
    office.store.budget = Budget(trace=Amounts(runs=1))
    first, second, third = await sent(office, CHAIN)
    _, desk = await office.begin()
    await desk.say("a draft", to=first).ack(first).take()
    assert await office.claim() == []
    assert office.row("select status, hold_reason from messages where message_id = ?", second) == ("held", "budget")
    await over(office, 3 * WAIT_MS - 1)
    assert office.row("select status, hold_reason from messages where message_id = ?", third) == ("held", "chain")
    await office.store.release_held(second)
    await over(office, WAIT_MS - 1)
    assert office.statuses() == ["completed", "processing", "held"]


async def test_what_the_loop_guard_holds_is_not_waited_for_longer(office: Any) -> None:
    office.rules = replace(office.rules, limits=Limits(hops=0))
    (first,) = await sent(office, "go")
    _, desk = await office.begin()
    await desk.say("[@bob: draft] => [@cyd: review]", to=first).ack(first).take()
    held, step = (id for (id,) in office.rows("select message_id from messages where parent is not null order by id"))
    assert office.one("select hold_reason from messages where message_id = ?", held) == "loop_guard"
    await office.store.release_held(step)
    await over(office, WAIT_MS)
    assert office.row("select status from joins") == ("timed_out",)


async def test_the_time_in_which_the_office_was_closed_does_not_count(office: Any) -> None:
    _, second, _ = await sent(office, CHAIN)
    office.store.close()
    office.clock.advance(2 * WAIT_MS)
    await office.reopen()
    await office.store.release(office.rules, {})
    await office.claim()
    assert office.statuses() == ["processing", "held", "held"]
    await over(office, WAIT_MS)
    assert office.status(second) == "dead"


async def test_a_part_that_is_tried_again_gives_a_join_its_whole_time(office: Any) -> None:
    first, _, join = await sent(office, "[@ada: one] [@bob: two] => [@cyd: sum up]")
    for claimed in await office.claim():
        if claimed.agent == "ada":
            await office.desk(claimed).fail(first, "permanent", "bad key").take()
    office.clock.advance(WAIT_MS - 1)
    await office.store.retry(first)
    await over(office, WAIT_MS - 1)
    assert office.status(join) == "held"
