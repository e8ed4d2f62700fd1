"""Dead letters: retried, edited and retried, dropped."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, UnknownAgent, UnknownMessage, WrongState
from manydesks.domain.loopguard import Limits


async def dead(office: Any, text: str = "hello", **more: Any) -> str:
    message = await office.sent(text, **more)
    (claimed,) = await office.claim(batch=1)
    await office.desk(claimed).fail(message, "permanent", "bad key").take()
    return str(message)


async def test_a_retried_letter_has_all_its_attempts_again(office: Any) -> None:
    message = await dead(office)
    await office.store.retry(message)
    assert office.row("select status, retry_count, last_error, not_before from messages") == ("pending", 0, None, None)
    claimed, desk = await office.begin()
    assert (claimed.messages[0].message_id, claimed.messages[0].attempt) == (message, 1)
    await desk.say("now").ack(message).take()
    assert office.status(message) == "completed"
    assert json.loads(office.one("select data from events where kind = 'message_requeued'")) == {
        "actor": "owner", "edited": False,
    }  # fmt: skip


async def test_it_goes_to_the_end_of_its_lane(office: Any) -> None:
    first = await dead(office)
    others = [await office.sent(str(n)) for n in range(2)]
    await office.store.retry(first)
    claimed, _ = await office.begin()
    assert [work.message_id for work in claimed.messages] == [*others, first]


async def test_it_can_be_edited_first(office: Any) -> None:
    message = await dead(office, "old words")
    await office.store.retry(message, "new words")
    claimed, _ = await office.begin()
    assert claimed.messages[0].text == "new words"
    # what was said stays said
    assert "old words" in [text for (text,) in office.rows("select text from bodies")]


@pytest.mark.parametrize("text", ["", "  \n", "half \ud83d"])
async def test_it_cannot_be_edited_into_nothing(office: Any, text: str) -> None:
    message = await dead(office)
    before = office.everything()
    with pytest.raises(BadInput):
        await office.store.retry(message, text)
    assert office.everything() == before


async def test_a_dropped_letter_leaves_the_list_not_the_table(office: Any, reader: Any) -> None:
    message = await dead(office)
    assert [letter["messageId"] for letter in reader.dead()] == [message]
    await office.store.drop(message)
    assert reader.dead() == []
    assert office.status(message) == "cancelled"
    assert json.loads(office.one("select data from events where kind = 'message_cancelled'")) == {
        "reason": "dropped", "actor": "owner",
    }  # fmt: skip


@pytest.mark.parametrize("verb", ["retry", "drop"])
async def test_only_a_dead_one_can_be_touched(office: Any, verb: str) -> None:
    async def refused(message: str, says: str) -> None:
        before = office.everything()
        with pytest.raises(WrongState, match=says):
            await getattr(office.store, verb)(message)
        assert office.everything() == before

    message = await office.sent()
    await refused(message, "is pending")
    _, desk = await office.begin()
    await refused(message, "is processing")
    await desk.ack(message).take()
    await refused(message, "is completed")
    other = await dead(office)
    await office.store.drop(other)
    await refused(other, "is cancelled")
    with pytest.raises(UnknownMessage):
        await getattr(office.store, verb)("api_nothere")


async def test_a_letter_to_an_agent_that_left_can_only_be_dropped(office: Any) -> None:
    message = await dead(office, to="bob")
    await office.store.remove_agent("bob")
    with pytest.raises(UnknownAgent):
        await office.store.retry(message)
    await office.store.drop(message)
    assert office.status(message) == "cancelled"


async def held(office: Any) -> str:
    """A message that the loop guard stopped."""
    first = await office.sent()
    office.rules = replace(office.rules, limits=Limits(hops=0))
    _, desk = await office.begin()
    await desk.say("[@bob: over to you]").ack(first).take()
    return str(office.one("select message_id from messages where state = 2"))


async def test_a_held_message_can_be_let_go_on(office: Any) -> None:
    message = await held(office)
    await office.store.release_held(message)
    assert office.status(message) == "pending"
    assert office.row("select hold_reason, last_error from messages where message_id = ?", message) == (None, None)
    (claimed,) = await office.claim()
    assert [work.message_id for work in claimed.messages] == [message]


async def test_a_held_message_can_be_dropped_and_its_agent_removed(office: Any) -> None:
    message = await held(office)
    with pytest.raises(BadInput, match="1 message pending, running or held"):
        await office.store.remove_agent("bob")
    await office.store.drop(message)
    assert office.status(message) == "cancelled"
    assert (await office.store.remove_agent("bob"))["id"] == "bob"


async def test_only_a_held_message_can_be_released(office: Any) -> None:
    message = await office.sent()
    with pytest.raises(WrongState, match="only a held one can be released"):
        await office.store.release_held(message)


async def test_a_cancelled_message_never_begins_and_its_lane_moves_up(office: Any, reader: Any) -> None:
    first, second = await office.sent("one"), await office.sent("two")
    await office.store.cancel(first)
    assert office.status(first) == "cancelled"
    assert reader.queue_status()["cancelled"] == 1
    assert json.loads(office.one("select data from events where kind = 'message_cancelled'")) == {
        "reason": "cancelled", "actor": "owner",
    }  # fmt: skip
    claimed, _ = await office.begin()
    assert [work.message_id for work in claimed.messages] == [second]


async def test_a_held_message_and_one_that_backs_off_can_be_cancelled(office: Any) -> None:
    message = await held(office)
    await office.store.cancel(message)
    assert office.status(message) == "cancelled"
    again = await office.sent("again", to="cyd")
    (claimed,) = await office.claim()
    await office.desk(claimed).fail(again).take()
    await office.store.cancel(again)
    assert await office.store.next_timer() is None
