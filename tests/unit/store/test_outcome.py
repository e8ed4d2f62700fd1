"""Failures: the ladder, the end, what was said already, and a sender who is always told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manydesks.domain.failure import Failure, FailureClass
from manydesks.store.deliver import Delivery

CRASH = Failure(kind=FailureClass.TRANSIENT, reason="crash")

TRANSIENT = Failure(kind=FailureClass.TRANSIENT, reason="the line is dead")


async def attempt(office: Any, message: str, **failure: Any) -> None:
    _, desk = await office.begin()
    await desk.fail(message, **failure).take()


async def deliver(office: Any, delivery: Delivery) -> None:
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    assert await office.store.settle(parcel, delivery)


def last(office: Any, kind: str) -> dict[str, Any]:
    data = office.rows("select data from events where kind = ? order by seq", kind)[-1][0]
    return dict(json.loads(data))


async def test_the_ladder(office: Any, clock: Any) -> None:
    """+5, +10, +20, +40 s, then dead: five attempts in all."""
    message = await office.sent()
    for number, wait in enumerate([5_000, 10_000, 20_000, 40_000], 1):
        await attempt(office, message)
        assert office.status(message) == "pending"
        retried = last(office, "message_retried")
        assert retried == {
            "attempt": number, "class": "transient", "reason": "no luck", "next_at": clock.now() + wait,
        }  # fmt: skip
        assert await office.store.next_timer() == wait
        clock.advance(wait - 1)
        assert await office.claim() == []
        clock.advance(1)
    await attempt(office, message)
    assert office.status(message) == "dead"
    assert office.row("select retry_count, last_error from messages") == (5, "no luck (attempt 5 of 5)")
    assert last(office, "message_dead")["attempt"] == 5
    assert office.responses() == [
        ("pending", "notice", f"ada could not answer: no luck (attempt 5 of 5) (dead letter {message})")
    ]
    assert [attempts for (attempts,) in office.rows("select attempt from runs order by fence")] == [1, 2, 3, 4, 5]


async def test_the_sender_is_not_bothered_before_the_end(office: Any) -> None:
    await attempt(office, await office.sent())
    assert office.responses() == []


async def test_retry_after_is_honoured(office: Any, clock: Any) -> None:
    message = await office.sent()
    await attempt(office, message, retry_after=90)
    assert await office.store.next_timer() == 90_000


async def test_a_permanent_failure_is_dead_at_once(office: Any) -> None:
    message = await office.sent()
    await attempt(office, message, kind="permanent", reason="bad key")
    assert office.status(message) == "dead"
    assert office.responses() == [("pending", "notice", f"ada could not answer: bad key (dead letter {message})")]


async def test_a_refusal_is_answered_with_its_reason(office: Any) -> None:
    message = await office.sent()
    await attempt(office, message, kind="refused", reason="not allowed here")
    assert office.status(message) == "completed"
    assert office.responses() == [("pending", "notice", "not allowed here")]
    assert office.one("select outcome from runs") == "failed"


async def test_a_notice_is_not_part_of_the_agents_history(office: Any) -> None:
    await attempt(office, await office.sent(), kind="permanent")
    assert office.rows("select role from agent_messages") == [("user",)]


@pytest.mark.parametrize("kind", ["transient", "permanent", "refused"])
async def test_a_failure_ends_its_claim_and_the_others_return_uncounted(office: Any, kind: str) -> None:
    one, two, three = [await office.sent(str(n)) for n in range(3)]
    claimed, desk = await office.begin()
    assert await desk.ack(one).fail(two, kind).take() == claimed.fence
    assert office.rows("select status, retry_count from messages order by id")[::2] == [
        ("completed", 0),
        ("pending", 0),
    ]
    assert office.rows("select message from events where kind = 'message_returned'") == [(three,)]
    assert office.one("select ended_at is not null from runs where id = ?", claimed.run)
    # its handle is stale
    await desk.ack(three).take()
    assert office.status(three) == "pending"


async def test_what_stood_behind_a_dead_one_goes_on_at_once(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    _, desk = await office.begin()
    await desk.fail(one, "permanent").take()
    claimed, _ = await office.begin()
    assert [work.message_id for work in claimed.messages] == [two]
    assert claimed.messages[0].attempt == 1


async def test_a_retry_holds_the_lane(office: Any, clock: Any) -> None:
    one, two = await office.sent(), await office.sent()
    _, desk = await office.begin(batch=1)
    await desk.fail(one).take()
    assert await office.claim() == []
    clock.advance(5_000)
    claimed, _ = await office.begin()
    assert [(work.message_id, work.attempt) for work in claimed.messages] == [(one, 2), (two, 1)]


# a run that dies as a whole


async def test_a_run_that_dies_counts_once_for_each_unanswered_message(office: Any, clock: Any) -> None:
    one, two, three = [await office.sent(str(n)) for n in range(3)]
    claimed, desk = await office.begin()
    await desk.ack(one).take()
    await office.store.run_died(claimed.session, claimed.fence, TRANSIENT, office.rules)
    assert office.rows("select status, retry_count, last_error from messages order by id") == [
        ("completed", 0, None), ("pending", 1, TRANSIENT.reason), ("pending", 1, TRANSIENT.reason),
    ]  # fmt: skip
    assert office.row("select outcome, reason from runs") == ("failed", TRANSIENT.reason)
    assert office.rows("select * from claims") == []
    clock.advance(5_000)
    again, _ = await office.begin()
    assert [work.message_id for work in again.messages] == [two, three]


async def test_poison_dies_alone(office: Any, clock: Any) -> None:
    """Whoever shared its batches has only two attempts counted, and is answered after it."""
    poison, innocent = await office.sent("poison"), await office.sent("innocent")
    for _ in range(20):
        runs = await office.claim()
        if runs:
            (claimed,) = runs
            if poison in [work.message_id for work in claimed.messages]:
                await office.store.run_died(claimed.session, claimed.fence, TRANSIENT, office.rules)
            else:
                await office.desk(claimed).say("fine").ack(innocent).take()
                break
        clock.advance(60_000)
    assert office.status(poison) == "dead"
    assert office.row("select status, retry_count from messages where message_id = ?", innocent) == ("completed", 2)


async def test_a_run_that_died_before_dies_no_more(office: Any) -> None:
    await office.sent()
    old, _ = await office.begin()
    await office.store.run_released(old.session, old.fence, "stop")
    new, _ = await office.begin()
    before = office.everything()
    await office.store.run_died(old.session, old.fence, TRANSIENT, office.rules)
    await office.store.run_released(old.session, old.fence, "stop")
    await office.store.run_died("session_unknown", new.fence, TRANSIENT, office.rules)
    await office.store.run_died(new.session, 999, TRANSIENT, office.rules)
    assert office.everything() == before


async def test_a_permanent_death_buries_every_member(office: Any) -> None:
    for n in range(3):
        await office.sent(str(n))
    claimed, _ = await office.begin()
    failure = Failure(kind=FailureClass.PERMANENT, reason="no such provider")
    await office.store.run_died(claimed.session, claimed.fence, failure, office.rules)
    assert office.statuses() == ["dead"] * 3
    assert [operation for _, operation, _ in office.responses()] == ["notice"] * 3


async def test_a_released_run_counts_nothing(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    await desk.say("half an answer").take()
    await office.store.run_released(claimed.session, claimed.fence, "the office stopped")
    assert office.row("select status, retry_count, not_before from messages") == ("pending", 0, None)
    assert office.responses() == [("withdrawn", "message", "half an answer")]
    assert office.row("select outcome, reason from runs") == ("released", "the office stopped")
    again, desk = await office.begin()
    assert again.messages[0].attempt == 1
    await desk.say("whole").ack(message).take()


# output-sent protection


async def test_what_nobody_has_seen_is_withdrawn_before_a_retry(office: Any, clock: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("one").say("two").fail(message).take()
    assert office.status(message) == "pending"
    assert [status for status, _, _ in office.responses()] == ["withdrawn", "withdrawn"]
    assert office.kinds().count("response_withdrawn") == 2
    assert await office.store.claim_parcels(["console"], most=10) == []
    clock.advance(5_000)
    _, desk = await office.begin()
    await desk.say("again").ack(message).take()
    assert [text for status, _, text in office.responses() if status == "pending"] == ["again"]


async def test_what_another_message_was_told_stays(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    _, desk = await office.begin()
    await desk.say("for one", to=one).ack(one).say("for two", to=two).fail(two).take()
    assert office.responses() == [("pending", "message", "for one"), ("withdrawn", "message", "for two")]


@pytest.mark.parametrize(
    "sent",
    [None, Delivery(receipt="r"), Delivery(unsure=True, reason="cut off")],
    ids=["being sent", "sent", "perhaps sent"],
)
async def test_what_was_sent_already_is_not_said_twice(office: Any, sent: Delivery | None) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("one").take()
    if sent is None:
        assert len(await office.store.claim_parcels(["console"], most=1)) == 1
    else:
        await deliver(office, sent)
    await desk.say("two").fail(message).take()
    assert office.row("select status, last_error from messages") == ("dead", "interrupted_after_output: no luck")
    assert [status for status, _, _ in office.responses()][1:] == ["withdrawn", "pending"]
    assert office.responses()[-1][1] == "notice"


@pytest.mark.parametrize(
    "not_sent", [Delivery(retry_in_ms=5_000, reason="offline"), Delivery(dead=True, reason="no such chat")]
)
async def test_what_did_not_arrive_may_be_said_again(office: Any, not_sent: Delivery) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("one").take()
    await deliver(office, not_sent)
    await desk.fail(message).take()
    assert office.status(message) == "pending"


async def test_a_stored_hand_off_counts_as_output(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("[@bob: do it]").take()
    await desk.fail(message).take()
    assert office.status(message) == "dead"
    assert office.one("select count(*) from messages where agent = 'bob'") == 1


async def test_a_hand_off_counts_although_the_clock_was_set_back(office: Any, clock: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    clock.jump(-3_600_000)
    await desk.say("[@bob: do it]").take()
    await desk.fail(message).take()
    assert office.status(message) == "dead"


async def test_the_hand_off_of_an_earlier_run_does_not_count(office: Any) -> None:
    """Retried by hand within the same millisecond: the new run has handed off nothing."""
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("[@bob: do it]").fail(message).take()
    assert office.status(message) == "dead"
    await office.store.retry(message)
    runs = {claimed.agent: claimed for claimed in await office.claim()}
    await office.desk(runs["ada"]).fail(message).take()
    assert office.status(message) == "pending"


async def test_a_run_that_dies_after_output_buries_only_what_it_answered(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    claimed, desk = await office.begin()
    await desk.say("for one", to=one).take()
    await deliver(office, Delivery(receipt="r"))
    await office.store.run_died(claimed.session, claimed.fence, TRANSIENT, office.rules)
    assert office.statuses() == ["dead", "pending"]
    assert office.one("select retry_count from messages where message_id = ?", two) == 1


async def test_a_released_run_after_output_buries_what_it_answered(office: Any) -> None:
    one, _two = await office.sent(), await office.sent()
    claimed, desk = await office.begin()
    await desk.say("for one", to=one).take()
    await deliver(office, Delivery(receipt="r"))
    await office.store.run_released(claimed.session, claimed.fence, "the office stopped")
    assert office.statuses() == ["dead", "pending"]
    assert office.one("select last_error from messages where message_id = ?", one).startswith(
        "interrupted_after_output"
    )


async def test_a_failure_behind_it_buries_a_member_that_has_output(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    _, desk = await office.begin()
    await desk.say("for one", to=one).take()
    await deliver(office, Delivery(receipt="r"))
    await desk.fail(two).take()
    assert office.statuses() == ["dead", "pending"]


async def test_a_member_that_was_completed_stays_so_whatever_follows(office: Any) -> None:
    one, two = await office.sent(), await office.sent()
    claimed, desk = await office.begin()
    await desk.say("for one", to=one).ack(one).take()
    await office.store.run_died(claimed.session, claimed.fence, TRANSIENT, office.rules)
    assert office.statuses() == ["completed", "pending"]
    assert office.responses() == [("pending", "message", "for one")]
    assert two


async def test_the_output_of_an_earlier_run_does_not_count(office: Any) -> None:
    message = await office.sent()
    _, desk = await office.begin()
    await desk.say("one").take()
    await deliver(office, Delivery(receipt="r"))
    await desk.fail(message).take()
    assert office.status(message) == "dead"
    await office.store.retry(message)
    _, desk = await office.begin()
    await desk.say("two").fail(message).take()
    assert office.status(message) == "pending"
    assert office.responses()[0] == ("acked", "message", "one")


async def test_who_takes_up_the_rest_is_told_what_was_sent(office: Any, clock: Any) -> None:
    """Another message of a run that was broken off goes back with a notice; one of a run that sent nothing without."""
    one, two = await office.sent("one"), await office.sent("two")
    claimed, desk = await office.begin()
    await desk.say("the answer to one", to=one).take()
    await office.store.claim_parcels(["console"], most=1)
    await office.store.run_died(claimed.session, claimed.fence, CRASH, office.rules)
    assert office.status(one) == "dead"
    clock.advance(10_000)
    (again,) = await office.claim()
    (work,) = again.messages
    assert work.message_id == two
    assert work.content is not None
    (notice,) = work.content["hostNotices"]
    assert f'"the answer to one" (in reply to {one})' in notice
    await office.store.run_died(again.session, again.fence, CRASH, office.rules)
    # what it is told is told until somebody has done it
    clock.advance(20_000)
    (again,) = await office.claim()
    assert again.messages[0].content == work.content


async def test_a_run_that_sent_nothing_leaves_no_notice(office: Any, clock: Any) -> None:
    await office.sent("one")
    claimed, desk = await office.begin()
    await desk.say("nobody saw this").take()
    await office.store.run_died(claimed.session, claimed.fence, CRASH, office.rules)
    clock.advance(10_000)
    (again,) = await office.claim()
    assert again.messages[0].content is None


async def test_a_hand_off_is_told_of_too(office: Any, clock: Any) -> None:
    one, two = await office.sent("one"), await office.sent("two")
    claimed, desk = await office.begin()
    await desk.say("[@bob: look into it]", to=one).ack(one).take()
    await desk.fail(two).take()
    clock.advance(10_000)
    (again,) = [found for found in await office.claim() if found.agent == claimed.agent]
    assert '"look into it" to @bob' in again.messages[0].content["hostNotices"][0]


async def test_what_goes_back_uncounted_may_have_been_begun(office: Any) -> None:
    """A program's own transcript may have it: whoever resumes that is told, though no attempt counts."""
    await office.sent("/compact", commands=True)
    claimed, _ = await office.begin()
    await office.store.run_released(claimed.session, claimed.fence, "the office stopped")
    (again,) = await office.claim()
    (work,) = again.messages
    assert work.attempt == 1
    assert work.content is not None
    assert work.content["isCommand"] is True
    (notice,) = work.content["hostNotices"]
    assert notice.startswith("An earlier run had this work and was broken off")
