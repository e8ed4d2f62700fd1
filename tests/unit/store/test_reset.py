"""An agent begins anew; what waits for it waits on, in order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manydesks.domain.errors import UnknownAgent, WrongState


async def test_what_waits_goes_along_in_order(office: Any) -> None:
    waiting = [await office.sent(str(number), to="bob") for number in range(5)]
    ((before,),) = office.rows("select id from sessions where agent = 'bob'")
    (done,) = await office.store.reset_agent("bob")
    assert (done["before"], done["generation"], done["moved"]) == (before, 2, 5)
    assert office.rows("select id, status, generation from sessions where agent = 'bob' order by generation") == [
        (before, "closed", 1),
        (done["session"], "active", 2),
    ]
    later = await office.sent("later", to="bob")
    claimed, _ = await office.begin()
    assert claimed.session == done["session"]
    assert [work.message_id for work in claimed.messages] == [*waiting, later]


async def test_it_is_told(office: Any) -> None:
    await office.sent(to="bob")
    head = office.head()
    (done,) = await office.store.reset_agent("bob")
    rows = office.rows("select kind, session, agent, data from events where seq > ? order by seq", head)
    about = [(kind, session, agent, json.loads(data)) for kind, session, agent, data in rows]
    assert about == [
        ("session_closed", done["before"], "bob", {"generation": 1, "reason": "reset", "actor": "owner"}),
        ("session_opened", done["session"], "bob", {"generation": 2, "mode": "agent"}),
        (
            "session_reset",
            done["session"],
            "bob",
            {"generation": 2, "before": done["before"], "moved": 1, "actor": "owner"},
        ),
    ]


async def test_its_mind_is_empty(office: Any) -> None:
    message = await office.sent(to="bob")
    claimed, desk = await office.begin()
    await desk.say("hi").ack(message).take(state={"continuation": "token"})
    assert office.one("select continuation from sessions") == "token"
    await office.store.reset_agent("bob")
    await office.sent(to="bob")
    again, _ = await office.begin()
    assert again.session != claimed.session
    assert again.continuation is None
    # what it said is history, and stays
    assert office.one("select count(*) from agent_messages where agent_id = 'bob' and role = 'assistant'") == 1


async def test_refused_while_it_works(office: Any) -> None:
    message = await office.sent(to="bob")
    _, desk = await office.begin()
    before = office.everything()
    with pytest.raises(WrongState, match="'bob' is at work"):
        await office.store.reset_agent("bob")
    assert office.everything() == before
    await desk.ack(message).take()
    assert len(await office.store.reset_agent("bob")) == 1


async def test_dead_held_and_delayed_ones_go_along(office: Any, clock: Any) -> None:
    dead = await office.sent("dead", to="bob")
    _, desk = await office.begin()
    await desk.fail(dead, "permanent").take()
    waits = await office.sent("waits for its next attempt", to="bob")
    _, desk = await office.begin()
    await desk.fail(waits).take()
    behind = await office.sent("stands behind it", to="bob")
    other = await office.sent("somebody else's", to="ada")
    (done,) = await office.store.reset_agent("bob")
    assert done["moved"] == 3
    assert office.rows("select session, lane from messages where message_id = ?", dead) == [(done["session"],) * 2]
    assert {claimed.agent for claimed in await office.claim()} == {"ada"}
    await office.store.retry(dead)
    clock.advance(60_000)
    (claimed,) = await office.claim()
    assert [work.message_id for work in claimed.messages] == [waits, behind, dead]
    assert claimed.session == done["session"]
    assert office.status(other) == "processing"


async def test_who_has_not_worked_has_nothing_to_forget(office: Any) -> None:
    before = office.everything()
    assert await office.store.reset_agent("cyd") == []
    assert office.everything() == before
    with pytest.raises(UnknownAgent):
        await office.store.reset_agent("cydd")


async def test_again_and_again(office: Any) -> None:
    message = await office.sent(to="bob")
    for generation in (2, 3, 4):
        (done,) = await office.store.reset_agent("bob")
        assert done["generation"] == generation
    claimed, _ = await office.begin()
    assert [work.message_id for work in claimed.messages] == [message]
    assert office.one("select count(*) from sessions where agent = 'bob' and status = 'active'") == 1
