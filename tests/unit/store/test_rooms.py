"""Rooms: a post is stored once and delivered to every other member."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.loopguard import Limits


@pytest.fixture
async def web(office: Any) -> Any:
    """A team of all three, led by ada."""
    await office.store.add_team(id="web", name="Web", leader="ada", members=["bob", "cyd"])
    return office


def room(office: Any) -> list[tuple[Any, ...]]:
    return office.rows(
        "select team_id, from_agent, sender, text from chat_messages c join bodies b on b.id = c.body order by c.id"
    )


async def test_a_persons_post_reaches_every_member(web: Any) -> None:
    accepted = await web.send("[#web: lunch?]", sender="Kim")
    assert room(web) == [("web", None, "Kim", "lunch?")]
    rows = web.rows("select agent, kind, status, text, content, hop from messages_text order by id")
    assert rows == [(agent, "chat", "pending", "lunch?", '{"room": "web"}', 0) for agent in ("ada", "bob", "cyd")]
    assert all(message["messageId"].startswith("chatroom_") for message in accepted.messages)
    assert accepted.message_id == accepted.messages[0]["messageId"]
    assert web.row("select channel, platform_id, kind from conversations where id = 'room:web'") == (
        "room", "web", "room",
    )  # fmt: skip
    posted = web.row("select trace, agent, data from events where kind = 'chatroom_posted'")
    assert posted[:2] == (accepted.trace, None)
    assert json.loads(posted[2]) == {"from": "Kim", "team": "web", "post": 1}
    routed = web.rows("select data from events where kind = 'agent_routed' order by seq")
    assert [json.loads(data) for (data,) in routed] == [{"by": "room", "team": "web"}] * 3
    # the text lives once, beside what came in
    assert web.rows("select text from bodies order by id") == [("[#web: lunch?]",), ("lunch?",)]


async def test_a_post_beside_a_tag_leaves_the_arrivals_key_to_the_tag(web: Any) -> None:
    accepted = await web.send("[@ada: cook] [#web: lunch?]", key="api_1")
    assert accepted.message_id == "api_1"
    assert [message["messageId"].split("_")[0] for message in accepted.messages] == ["api"] + ["chatroom"] * 3


async def test_posts_that_wait_are_taken_together(web: Any) -> None:
    for text in ("one", "two", "three"):
        await web.send(f"[#web: {text}]")
    for claimed in await web.claim():
        assert [work.text for work in claimed.messages] == ["one", "two", "three"]
        assert {json.dumps(work.content) for work in claimed.messages} == {'{"room": "web"}'}


async def test_an_agents_post_reaches_the_others(web: Any) -> None:
    message = await web.sent("go", to="bob")
    _, desk = await web.begin()
    await desk.say("Done. [#web: it is out]", to=message).ack(message).take()
    assert room(web) == [("web", "bob", "bob", "it is out")]
    rows = web.rows("select agent, from_agent, hop, chain, parent, text from messages_text where hop > 0 order by id")
    assert rows == [(agent, "bob", 1, "bob", message, "it is out") for agent in ("ada", "cyd")]
    assert web.responses() == [("pending", "message", "Done. → #web: it is out")]


async def test_what_a_member_answers_goes_to_the_person_and_not_into_the_room(web: Any) -> None:
    await web.send("[#web: lunch?]")
    for claimed in await web.claim():
        (work,) = claimed.messages
        desk = web.desk(claimed)
        # two stay silent: that is an answer too
        await (desk.say("yes", to=work.message_id) if claimed.agent == "bob" else desk).ack(work.message_id).take()
    assert web.statuses() == ["completed"] * 3
    assert web.responses() == [("pending", "message", "yes")]
    assert len(room(web)) == 1


async def test_members_who_answer_each_post_with_another_are_stopped(web: Any) -> None:
    web.rules = replace(web.rules, limits=Limits(hops=100, per_trace=12, per_pair_minute=1000))
    await web.send("[#web: who is there?]")
    for _ in range(50):
        begun = await web.claim(batch=1)
        for claimed in begun:
            (work,) = claimed.messages
            await web.desk(claimed).say("[#web: me!]", to=work.message_id).ack(work.message_id).take()
        if not begun:
            break
    else:
        raise AssertionError("they go on for ever")
    assert web.one("select count(*) from messages where state = 3") == 12
    assert web.rows("select distinct hold_reason from messages where state = 2") == [("loop_guard",)]


async def test_a_run_that_fails_after_it_has_posted_does_not_post_again(web: Any) -> None:
    """Also where nobody else is there to hear it."""
    await web.store.add_agent(id="dan", provider="rehearsal")
    await web.store.add_team(id="alone", name="Alone", leader="dan", members=[])
    message = await web.sent("go", to="dan")
    _, desk = await web.begin()
    await desk.say("[#alone: hello?]", to=message).fail(message).take()
    assert web.status(message) == "dead"
    assert len(room(web)) == 1


async def test_a_room_that_one_is_not_a_member_of_stays_text(office: Any) -> None:
    await office.store.add_team(id="web", name="Web", leader="ada", members=["bob"])
    message = await office.sent("go", to="cyd")
    _, desk = await office.begin()
    await desk.say("[#web: let me in]", to=message).ack(message).take()
    assert room(office) == []
    assert "You cannot post in '#web'" in office.responses()[0][2]


async def test_what_was_said_in_a_room_outlives_its_trace(web: Any) -> None:
    await web.send("[#web: lunch?]")
    for claimed in await web.claim():
        await web.desk(claimed).ack(claimed.messages[0].message_id).take()
    web.clock.advance(10**9)
    await web.store.pause("ada")  # another word: the ledger's last one always stays
    while (await web.store.prune(keep_ms=1, require_archive=False)).more:
        pass
    assert web.rows("select * from messages") == []
    assert room(web) == [("web", None, "you", "lunch?")]
