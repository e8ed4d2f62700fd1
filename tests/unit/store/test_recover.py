"""After a start: what an earlier host left claimed comes free, once, and nothing of this host does."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.store.deliver import Delivery


async def test_open_runs_are_those_of_earlier_hosts(office: Any) -> None:
    await office.sent(to="ada")
    await office.sent(to="bob")
    left = await office.claim()
    assert await office.store.open_runs() == []
    await office.reopen()
    assert await office.store.open_runs() == [(run.agent, run.session, run.fence) for run in left]


async def test_output_that_was_written_before_the_crash_is_taken_under_its_old_fence(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    await office.reopen()
    assert await desk.say("just in time").ack(message).take() == claimed.fence
    assert await office.store.release(office.rules, {}) == 0
    assert office.status(message) == "completed"
    assert office.responses() == [("pending", "message", "just in time")]


async def test_what_was_not_answered_counts_an_attempt_and_is_ready_at_once(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    old, desk = await office.begin()
    await office.reopen()
    assert await office.store.release(office.rules, {}) == 2
    assert office.rows("select status, retry_count from messages") == [("pending", 1), ("pending", 1)]
    assert office.row("select outcome, reason from runs") == ("failed", "the office stopped during the run")
    new, _ = await office.begin()
    assert [work.message_id for work in new.messages] == [one, two]
    assert new.fence > old.fence
    # the desk of the dead host wakes up
    await desk.say("late").ack(one).take()
    assert office.responses() == []
    assert office.statuses() == ["processing", "processing"]


async def test_a_message_that_brings_the_host_down_does_not_do_so_for_ever(office: Any) -> None:
    message = await office.sent()
    for attempt in range(5):
        claimed, _ = await office.begin()
        assert claimed.messages[0].attempt == attempt + 1
        await office.reopen()
        await office.store.release(office.rules, {})
    assert office.status(message) == "dead"
    assert await office.claim() == []


async def test_what_was_sent_before_the_crash_is_not_said_again(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("hi").take()
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await office.store.settle(parcel, Delivery(receipt="r"))
    await office.reopen()
    await office.store.release(office.rules, {})
    assert office.status(message) == "dead"
    assert office.one("select last_error from messages").startswith("interrupted_after_output")


async def sending(office: Any) -> Any:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("one").say("two").ack(message).take()
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    return parcel


async def test_a_sending_that_was_cut_off_is_sent_again_where_the_channel_says_so(office: Any) -> None:
    old = await sending(office)
    await office.reopen()
    assert await office.store.release(office.rules, {"console": "resend"}) == 1
    (new,) = await office.store.claim_parcels(["console"], most=10)
    assert (new.id, new.part, new.text, new.attempt) == (old.id, old.part, "one", 2)
    assert await office.store.settle(old, Delivery(receipt="late")) is False
    assert await office.store.settle(new, Delivery(receipt="r")) is True


async def test_a_sending_that_brings_the_host_down_is_left_to_a_person_in_the_end(office: Any) -> None:
    await sending(office)
    for _ in range(4):
        await office.reopen()
        await office.store.release(office.rules, {"console": "resend"})
        assert len(await office.store.claim_parcels(["console"], most=10)) == 1
    await office.reopen()
    await office.store.release(office.rules, {"console": "resend"})
    assert [status for status, _, _ in office.responses()] == ["unsure", "pending"]


@pytest.mark.parametrize("rule_of", [{"console": "ask"}, {}, {"telegram": "resend"}])
async def test_otherwise_nobody_knows_and_it_says_so(office: Any, rule_of: dict[str, str]) -> None:
    old = await sending(office)
    await office.reopen()
    assert await office.store.release(office.rules, rule_of) == 1
    assert [status for status, _, _ in office.responses()] == ["unsure", "pending"]
    assert "response_unsure" in office.kinds()
    assert await office.store.settle(old, Delivery(receipt="late")) is False
    assert [parcel.text for parcel in await office.store.claim_parcels(["console"], most=10)] == ["two"]


async def test_claims_of_this_host_stay(office: Any) -> None:
    await office.sent()
    claimed, _ = await office.begin()
    before = office.everything()
    assert await office.store.release(office.rules, {}) == 0
    assert office.everything() == before
    assert claimed


async def test_releasing_again_finds_nothing(office: Any) -> None:
    await sending(office)
    await office.sent(to="bob")
    await office.claim()
    await office.reopen()
    assert await office.store.release(office.rules, {}) == 2
    before = office.everything()
    assert await office.store.release(office.rules, {}) == 0
    assert office.everything() == before


async def test_extending_is_for_the_claims_of_this_host(office: Any, clock: Any) -> None:
    await office.sent(to="ada")
    (old,) = await office.claim()
    await office.reopen()
    await office.sent(to="bob")
    (new,) = await office.claim()
    clock.advance(30_000)
    await office.store.extend()
    until = dict(office.rows("select fence, until from claims"))
    assert until[new.fence] == clock.monotonic() + 60_000
    assert until[old.fence] == clock.monotonic() + 30_000
