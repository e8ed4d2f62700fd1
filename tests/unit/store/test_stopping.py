"""What shall not go on: cancelled in the instant it is asked for, whatever its desk still says, and ended once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manydesks.domain.errors import UnknownAgent, UnknownMessage, WrongState
from manydesks.domain.failure import Failure, FailureClass
from manydesks.store import stopping

ENDED = Failure(kind=FailureClass.TRANSIENT, reason="cancelled")


async def over(office: Any, claimed: Any) -> None:
    """The host has ended the run."""
    await office.store.run_died(claimed.session, claimed.fence, ENDED, office.rules)


async def test_a_message_that_runs_is_cancelled_at_once_and_its_lane_waits_for_the_run(office: Any) -> None:
    first, second = await office.sent("first"), await office.sent("second")
    claimed, desk = await office.begin(batch=1)
    done = await office.store.cancel(first, host=True)
    assert (done.messages, done.runs, done.more) == (1, ((claimed.session, claimed.fence),), False)
    assert office.status(first) == "cancelled"
    # nobody else sits down at a desk that is still in use
    assert await office.claim() == []
    assert office.row("select outcome, ended_at from runs") == ("cancelled", None)
    # whatever its desk says now
    await desk.say("too late", to=first).ack(first).take()
    assert office.status(first) == "cancelled"
    assert office.responses() == []
    assert office.kinds().count("output_discarded") == 2
    await over(office, claimed)
    assert office.one("select outcome from runs where ended_at is not null") == "cancelled"
    again, _ = await office.begin()
    assert [work.message_id for work in again.messages] == [second]
    assert again.messages[0].attempt == 1
    assert json.loads(office.one("select data from events where kind = 'message_cancelled'")) == {
        "reason": "cancelled", "actor": "owner",
    }  # fmt: skip
    assert "message_completed" not in office.kinds()


async def test_others_of_the_run_go_back_uncounted(office: Any) -> None:
    one, two, three = [await office.sent(text) for text in ("one", "two", "three")]
    claimed, desk = await office.begin()
    await office.store.cancel(two, host=True)
    await desk.say("done", to=one).ack(one).take()
    await over(office, claimed)
    assert [office.status(id) for id in (one, two, three)] == ["completed", "cancelled", "pending"]
    again, _ = await office.begin()
    assert [(work.message_id, work.attempt) for work in again.messages] == [(three, 1)]


async def test_a_run_that_answers_the_rest_before_it_hears_is_over_by_that(office: Any) -> None:
    one, two = await office.sent("one"), await office.sent("two")
    claimed, desk = await office.begin()
    await office.store.cancel(one, host=True)
    assert await desk.ack(two).take() == claimed.fence
    assert office.statuses() == ["cancelled", "completed"]
    await over(office, claimed)
    assert office.kinds().count("chain_step_done") == 1


async def test_what_was_sent_stays_and_what_nobody_saw_is_withdrawn(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    await desk.say("out already", to=message).take()
    (parcel,) = await office.store.claim_parcels(["console"], most=1)
    await desk.say("still here", to=message).take()
    await office.store.cancel(message, host=True)
    await over(office, claimed)
    states = [(status, text) for status, _, text in office.responses()]
    assert states == [("sending", "out already"), ("withdrawn", "still here")]
    assert office.status(message) == "cancelled"
    assert parcel.text == "out already"


async def test_cancelling_again_and_what_has_ended(office: Any) -> None:
    message = await office.sent()
    claimed, desk = await office.begin()
    await office.store.cancel(message, host=True)
    before = office.everything()
    assert (await office.store.cancel(message, host=True)).messages == 0
    assert office.everything() == before
    await over(office, claimed)
    assert (await office.store.cancel(claimed.run, host=True)).messages == 0
    done = await office.sent()
    claimed, desk = await office.begin()
    await desk.ack(done).take()
    with pytest.raises(WrongState, match="is completed; only a pending, a held or a running one can be cancelled"):
        await office.store.cancel(done, host=True)
    with pytest.raises(WrongState, match=r"is over \(completed\); only one under way can be cancelled"):
        await office.store.cancel(claimed.run, host=True)
    dead = await office.sent()
    claimed, desk = await office.begin()
    await desk.fail(dead, "permanent").take()
    with pytest.raises(WrongState, match="queue drop"):
        await office.store.cancel(dead, host=True)
    with pytest.raises(UnknownMessage, match="no message, run, session or trace 'x'"):
        await office.store.cancel("x", host=True)
    with pytest.raises(UnknownMessage):
        await office.store.cancel("", host=True)


async def test_without_a_host_only_what_waits_can_be_cancelled(office: Any) -> None:
    running, waiting = await office.sent("runs"), await office.sent("waits")
    claimed, _ = await office.begin(batch=1)
    for id in (running, claimed.run):
        with pytest.raises(WrongState, match="only an open office ends a run"):
            await office.store.cancel(id)
    done = await office.store.cancel_all()
    assert (done.messages, done.left, done.runs) == (1, 1, ())
    assert (office.status(running), office.status(waiting)) == ("processing", "cancelled")
    assert (await office.store.cancel_all()).more is False


async def test_a_run_a_lane_a_trace_an_agent_and_all(office: Any) -> None:
    async def some() -> tuple[Any, list[str]]:
        messages = [await office.sent("one", to="ada"), await office.sent("two", to="ada")]
        messages.append(await office.sent("other", to="bob"))
        (ada, bob) = await office.claim(batch=1)
        return (ada, bob), messages

    async def done(*runs: Any) -> None:
        while (await office.store.cancel_all(host=True)).more:
            pass
        for claimed in runs:
            await over(office, claimed)

    (ada, bob), (one, two, other) = await some()
    await office.store.cancel(ada.run, host=True)
    assert [office.status(id) for id in (one, two, other)] == ["cancelled", "pending", "processing"]
    await done(ada, bob)
    (ada, bob), (one, two, other) = await some()
    await office.store.cancel(ada.session, host=True)
    assert [office.status(id) for id in (one, two, other)] == ["cancelled", "cancelled", "processing"]
    await done(ada, bob)
    (ada, bob), (one, two, other) = await some()
    await office.store.cancel(office.one("select trace from messages where message_id = ?", two), host=True)
    assert [office.status(id) for id in (one, two, other)] == ["processing", "cancelled", "processing"]
    await done(ada, bob)
    (ada, bob), (one, two, other) = await some()
    stopped = await office.store.cancel_all("ada", host=True)
    assert [office.status(id) for id in (one, two, other)] == ["cancelled", "cancelled", "processing"]
    assert stopped.runs == ((ada.session, ada.fence),)
    await done(ada, bob)
    assert office.one("select count(*) from claims") == 0
    with pytest.raises(UnknownAgent):
        await office.store.cancel_all("nobody", host=True)


async def test_many_are_cancelled_in_steps(office: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "STEP", 3)
    for _ in range(8):
        await office.sent()
    counts = []
    while (done := await office.store.cancel_all(host=True)).more:
        counts.append(done.messages)
    assert counts == [3, 3, 2]
    assert set(office.statuses()) == {"cancelled"}


@pytest.mark.parametrize("others", [0, 1])
async def test_a_host_that_dies_between_the_word_and_the_end(office: Any, others: int) -> None:
    message = await office.sent()
    rest = [await office.sent() for _ in range(others)]
    await office.begin()
    await office.store.cancel(message, host=True)
    await office.reopen()
    assert await office.store.release(office.rules, {}) == others
    assert office.status(message) == "cancelled"
    assert office.one("select outcome from runs") == "cancelled"
    assert office.one("select count(*) from claims") == 0
    # nothing counts for the others: the run was stopped
    assert [work.attempt for claimed in await office.claim() for work in claimed.messages] == [1] * len(rest)


async def test_a_run_that_is_being_stopped_takes_nothing_more(office: Any) -> None:
    message = await office.sent()
    claimed, _ = await office.begin()
    await office.store.cancel(message, host=True)
    await office.sent("new")
    assert await office.store.claim_more([(claimed.session, claimed.fence)], batch=10) == {}
    # and what has come meanwhile waits for its end, like all of the lane
    assert await office.claim() == []
    await over(office, claimed)
    assert len(await office.claim()) == 1


async def test_an_office_that_closes_leaves_a_stopped_run_stopped(office: Any) -> None:
    message = await office.sent()
    claimed, _ = await office.begin()
    await office.store.cancel(message, host=True)
    await office.store.run_released(claimed.session, claimed.fence, "the office stopped")
    assert office.row("select outcome, reason from runs") == ("cancelled", "cancelled by owner")
    assert office.status(message) == "cancelled"


async def test_nothing_of_a_run_that_is_being_stopped_is_pruned(office: Any, clock: Any) -> None:
    message = await office.sent()
    claimed, _ = await office.begin()
    await office.store.cancel(message, host=True)
    clock.advance(10_000_000)
    while (await office.store.prune(keep_ms=0, require_archive=False)).more:
        pass
    await over(office, claimed)
    assert office.one("select count(*) from claims") == 0
    other = await office.sent("the last events of all stay")
    clock.advance(10_000_000)
    while (await office.store.prune(keep_ms=0, require_archive=False)).more:
        pass
    assert office.rows("select message_id from messages") == [(other,)]
