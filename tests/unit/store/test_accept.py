"""T1: an arrival is stored once, as the messages it was routed to."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, Duplicate, UnknownAgent


async def test_an_arrival_becomes_a_message_in_its_agents_lane(office: Any) -> None:
    accepted = await office.send(
        "hello", key="api_1", sender="Kim", sender_id="k", thread="t", instance="i", priority=3
    )
    assert accepted.message_id == "api_1"
    assert accepted.messages == ({"messageId": "api_1", "agent": "ada", "status": "pending"},)
    assert accepted.notices == ()
    row = office.row(
        "select trace, arrival, hop, kind, agent, queue, sender, sender_id, channel, instance, platform_id, thread_id, "
        "priority, text, ready, created_at from messages_text"
    )
    assert row == (
        accepted.trace, "api_1", 0, "chat", "ada", "ada", "Kim", "k", "console", "i", "here", "t", 3, "hello", 1,
        office.clock.now(),
    )  # fmt: skip
    assert office.row("select source, key, trace, sender, at from arrivals") == (
        "api", "api_1", accepted.trace, "Kim", office.clock.now(),
    )  # fmt: skip


async def test_text_lives_once(office: Any) -> None:
    await office.send("hello")
    assert office.rows("select text from bodies") == [("hello",)]
    assert office.one("select count(distinct body) from (select body from messages union all select body from arrivals "
                      "union all select body from agent_messages)") == 1  # fmt: skip


async def test_the_ledger_tells_it(office: Any) -> None:
    before = office.head()
    await office.send("hello", key="api_1")
    assert office.kinds(before) == ["conversation_added", "session_opened", "message_enqueued", "agent_routed"]
    data = json.loads(office.one("select data from events where kind = 'message_enqueued'"))
    assert data == {
        "message_id": "api_1", "channel": "console", "conversation": office.one("select id from conversations"),
        "sender": "you", "kind": "chat", "hop": 0, "from_agent": None, "priority": 0,
    }  # fmt: skip


async def test_a_known_arrival_is_recognised_and_changes_nothing(office: Any) -> None:
    await office.send("hello", key="api_1")
    before = office.everything()
    with pytest.raises(Duplicate):
        await office.send("hello", key="api_1")
    with pytest.raises(Duplicate):
        await office.send("something else", key="api_1", to="bob")
    assert office.everything() == before


async def test_it_is_recognised_after_a_restart_and_whatever_became_of_it(office: Any) -> None:
    message = await office.sent(key="api_1")
    _, desk = await office.begin()
    await desk.fail(message, "permanent").take()
    await office.store.drop(message)
    await office.reopen()
    with pytest.raises(Duplicate):
        await office.send("hello", key="api_1")


async def test_two_sources_may_use_the_same_key(office: Any) -> None:
    """Keys are unique at their source only: the second platform's message must not be taken for a repeated one."""
    first = await office.send("one", source="telegram", key="5", channel="telegram")
    second = await office.send("two", source="discord", key="5", channel="discord")
    assert first.message_id == "5"
    assert second.message_id == second.messages[0]["messageId"]
    assert second.message_id.startswith("discord_")
    assert [text for (text,) in office.rows("select text from messages_text order by id")] == ["one", "two"]
    with pytest.raises(Duplicate):
        await office.send("two", source="discord", key="5", channel="discord")


async def test_the_same_arrival_twice_in_one_batch_is_stored_once(office: Any) -> None:
    results = await asyncio.gather(*(office.send("hello", key="api_1") for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(result, Duplicate) for result in results) == 19
    assert office.one("select count(*) from messages") == 1


async def test_a_fan_out_is_one_arrival_and_several_messages(office: Any) -> None:
    accepted = await office.send("look: [@ada: one] [@bob: two]", key="api_1")
    assert [message["agent"] for message in accepted.messages] == ["ada", "bob"]
    assert accepted.messages[0]["messageId"] == "api_1"
    rows = office.rows("select agent, trace, arrival, text, ready from messages_text order by id")
    assert rows == [
        ("ada", accepted.trace, "api_1", "look:\n\none", 1),
        ("bob", accepted.trace, "api_1", "look:\n\ntwo", 1),
    ]
    assert office.one("select count(*) from arrivals") == 1


async def test_an_unknown_name_stays_text_and_the_sender_is_told(office: Any) -> None:
    accepted = await office.send("[@bub: hi] and more")
    assert "bob" in accepted.notices[0]
    assert office.one("select agent from messages") == "ada"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"text": ""}, "empty"),
        ({"text": " \n\t "}, "empty"),
        ({"text": "x" * 1001}, "1001 bytes.*1000"),
        ({"text": "é" * 501}, "1002 bytes"),
        ({"text": "half \ud83d"}, "Unicode"),
        ({"text": "hi", "sender": "half \ud83d"}, "Unicode"),
        ({"text": "hi", "platform_id": "half \ud83d"}, "Unicode"),
        ({"text": "hi", "key": ""}, "message id"),
        ({"text": "hi", "key": "../../etc"}, "message id"),
        ({"text": "hi", "key": "x" * 129}, "message id"),
        ({"text": "hi", "priority": 101}, "priority"),
        ({"text": "hi", "priority": -101}, "priority"),
    ],
)
async def test_what_is_not_allowed_is_refused_with_a_sentence_and_changes_nothing(
    office: Any, fields: dict[str, Any], says: str
) -> None:
    before = office.everything()
    with pytest.raises(BadInput, match=says):
        await office.send(**fields)
    assert office.everything() == before


async def test_an_unknown_recipient_is_refused_with_the_nearest_name(office: Any) -> None:
    with pytest.raises(UnknownAgent, match="did you mean 'bob'"):
        await office.send("hi", to="bub")
    assert office.one("select count(*) from arrivals") == 0


async def test_without_a_default_agent_nobody_would_get_it(office: Any) -> None:
    await office.store.remove_agent("ada")
    with pytest.raises(BadInput, match="Nobody would get this"):
        await office.send("hi")
    assert office.one("select count(*) from arrivals") == 0


async def test_a_name_alone_makes_it_the_conversations_default(office: Any) -> None:
    accepted = await office.send("@bob", key="api_1")
    assert accepted.messages == ()
    assert accepted.notices == ("bob answers here from now on.",)
    await office.send("hi")
    await office.send("hi", platform_id="elsewhere")
    assert office.rows("select agent from messages order by id") == [("bob",), ("ada",)]
    await office.send("@default")
    await office.send("hi again")
    assert office.rows("select agent from messages order by id")[-1] == ("ada",)
    assert office.kinds().count("conversation_changed") == 2


async def test_a_lane_belongs_to_the_agent_whatever_the_conversation(office: Any) -> None:
    for place in ("x", "y"):
        await office.send("hi", platform_id=place)
    assert office.one("select count(distinct lane) from messages") == 1
    assert office.one("select count(*) from sessions") == 1
    assert [ready for (ready,) in office.rows("select ready from messages order by position")] == [1, 0]
