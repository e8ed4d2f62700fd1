"""What comes while a run is under way may join its claim: in order, within the batch, for one reply address."""

from __future__ import annotations

from typing import Any

from manydesks.domain.envelope import Claimed


async def more(
    office: Any, claimed: Claimed, *, batch: int = 10, fence: int | None = None, tries: int = 5
) -> list[str]:
    joined = await office.store.claim_more(
        [(claimed.session, claimed.fence if fence is None else fence)], batch=batch, max_attempts=tries
    )
    if not joined:
        return []
    run, works = joined[claimed.session]
    assert run == claimed.run
    return [work.message_id for work in works]


async def test_what_has_come_since_joins_in_order(office: Any) -> None:
    first = await office.sent("one")
    claimed, desk = await office.begin()
    assert await more(office, claimed) == []
    two, three = await office.sent("two"), await office.sent("three")
    before = office.head()
    assert await more(office, claimed) == [two, three]
    assert await more(office, claimed) == []
    assert office.kinds(before) == ["message_received", "message_received"]
    assert office.statuses() == ["processing"] * 3
    assert office.rows("select message from run_messages where run = ? order by message", claimed.run) == sorted(
        (id,) for id in (first, two, three)
    )
    # the run ends with the last of them, not with the last that it began with
    assert await desk.say("1", to=first).ack(first).take() == 0
    assert await desk.say("2 and 3", to=two).ack(two).ack(three).take() == claimed.fence
    assert office.statuses() == ["completed"] * 3


async def test_the_batch_counts_all_that_ever_joined(office: Any) -> None:
    first = await office.sent("one")
    claimed, desk = await office.begin()
    sent = [await office.sent(str(number)) for number in range(4)]
    assert await more(office, claimed, batch=3) == sent[:2]
    await desk.ack(first).take()
    assert await more(office, claimed, batch=3) == []


async def test_another_reply_address_closes_the_door(office: Any) -> None:
    await office.sent("one")
    claimed, _ = await office.begin()
    await office.sent("from elsewhere", thread="other")
    await office.sent("behind it")
    assert await more(office, claimed) == []


async def test_a_claim_that_is_over_takes_nothing(office: Any) -> None:
    first = await office.sent("one")
    claimed, desk = await office.begin()
    await desk.say("1").ack(first).take()
    await office.sent("two")
    assert await more(office, claimed) == []
    again, _ = await office.begin()
    await office.sent("three")
    assert await more(office, again, fence=claimed.fence) == []
    assert len(await more(office, again)) == 1


async def test_a_paused_agent_takes_nothing(office: Any) -> None:
    await office.sent("one")
    claimed, _ = await office.begin()
    await office.store.pause("ada")
    await office.sent("two")
    assert await more(office, claimed) == []


async def test_a_message_at_its_last_attempts_stays_alone(office: Any) -> None:
    first = await office.sent("one")
    for _ in range(2):
        _, desk = await office.begin()
        await desk.fail(first).take()
        office.clock.advance(60_000)
    claimed, _ = await office.begin()
    await office.sent("two")
    assert await more(office, claimed) == []


async def test_whoever_joined_goes_back_with_the_others(office: Any) -> None:
    first = await office.sent("one")
    claimed, desk = await office.begin()
    second = await office.sent("two")
    assert await more(office, claimed) == [second]
    await desk.fail(first).take()
    assert office.statuses() == ["pending", "pending"]
    assert office.rows("select message_id, retry_count from messages order by id") == [(first, 1), (second, 0)]


async def test_nothing_to_join_changes_nothing(office: Any) -> None:
    await office.sent("one")
    claimed, _ = await office.begin()
    before = office.everything()
    assert await more(office, claimed) == []
    assert await office.store.claim_more([("session_unknown1", 7)], batch=10) == {}
    assert office.everything() == before
