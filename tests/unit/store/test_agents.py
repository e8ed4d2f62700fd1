"""Agents and teams: who works here, with every change in the ledger."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, UnknownAgent
from manydesks.domain.loopguard import Limits
from manydesks.store.accept import MESSAGES
from manydesks.store.places import session
from manydesks.store.store import Store


async def test_a_new_agent_has_a_card(office: Any, reader: Any) -> None:
    card = await office.store.add_agent(id="dan", provider="rehearsal", name="Dan", model="m-1")
    assert (card["id"], card["name"], card["provider"], card["model"]) == ("dan", "Dan", "rehearsal", "m-1")
    assert (card["workspace"], card["concurrency"], card["paused"]) == ("workspaces/dan", 1, 0)
    assert [agent["id"] for agent in reader.agents()] == ["ada", "bob", "cyd", "dan"]
    event = json.loads(office.rows("select data from events where kind = 'agent_added' order by seq")[-1][0])
    assert event == {"after": card, "actor": "owner"}


@pytest.mark.parametrize("id", ["", "Ada", "a b", "../x", "-a", "a-", "x" * 33, "user", "default", "ä", "a/b", "a\n"])
async def test_a_name_that_could_not_be_a_folder_is_refused(office: Any, id: str) -> None:
    before = office.everything()
    with pytest.raises(BadInput, match="not a name for an agent"):
        await office.store.add_agent(id=id, provider="rehearsal")
    with pytest.raises(BadInput, match="not a name for a team"):
        await office.store.add_team(id=id, name="T", leader="ada", members=[])
    assert office.everything() == before


async def test_names_are_taken_once(office: Any) -> None:
    await office.store.add_team(id="crew", name="Crew", leader="ada", members=["bob"])
    for verb, fields in (
        (office.store.add_agent, {"id": "ada", "provider": "rehearsal"}),
        (office.store.add_agent, {"id": "crew", "provider": "rehearsal"}),
        (office.store.add_team, {"id": "ada", "name": "A", "leader": "ada", "members": []}),
        (office.store.add_team, {"id": "crew", "name": "C", "leader": "ada", "members": []}),
    ):
        with pytest.raises(BadInput, match=r"already|taken"):
            await verb(**fields)


async def test_a_removed_agent_leaves_its_history_and_can_come_back(office: Any) -> None:
    message = await office.sent(to="bob")
    claimed, desk = await office.begin()
    await desk.say("hi").ack(message).take()
    await office.store.remove_agent("bob")
    with pytest.raises(UnknownAgent):
        await office.send("hi", to="bob")
    assert office.one("select count(*) from agent_messages where agent_id = 'bob'") == 2
    await office.store.add_agent(id="bob", provider="rehearsal", model="new")
    await office.sent(to="bob")
    again, _ = await office.begin()
    assert (again.session, again.model) == (claimed.session, "new")


async def test_an_agent_that_never_worked_is_made_anew(office: Any) -> None:
    await office.store.remove_agent("cyd")
    card = await office.store.add_agent(id="cyd", provider="other")
    assert card["provider"] == "other"
    assert office.one("select count(*) from agents where id = 'cyd'") == 1


async def test_an_agent_with_work_stays(office: Any) -> None:
    message = await office.sent(to="bob")
    with pytest.raises(BadInput, match="still has 1 message"):
        await office.store.remove_agent("bob")
    _, desk = await office.begin()
    with pytest.raises(BadInput, match="still has 1 message"):
        await office.store.remove_agent("bob")
    await desk.ack(message).take()
    assert (await office.store.remove_agent("bob"))["id"] == "bob"
    assert office.kinds()[-1] == "agent_removed"


async def test_of_a_message_and_the_removal_of_its_agent_one_is_refused(office: Any) -> None:
    """Also if both become one commit, as those do that come together."""
    for _ in range(20):
        await office.store.add_agent(id="tmp", provider="rehearsal")
        # the first one keeps the writer busy until both others are there
        _, sent, removed = await asyncio.gather(
            office.send("hello"),
            office.sent(to="tmp"),
            office.store.remove_agent("tmp"),
            return_exceptions=True,
        )
        if isinstance(sent, UnknownAgent):
            assert removed["id"] == "tmp"
            continue
        assert isinstance(removed, BadInput)
        await office.store.cancel(sent)
        await office.store.remove_agent("tmp")


async def test_a_leader_stays(office: Any) -> None:
    await office.store.add_team(id="crew", name="Crew", leader="ada", members=["bob"])
    with pytest.raises(BadInput, match="leads the team 'crew'"):
        await office.store.remove_agent("ada")
    await office.store.remove_agent("bob")
    assert office.rows("select agent from team_members") == [("ada",)]


async def test_nobody_is_the_default_who_is_not_there(office: Any) -> None:
    await office.send("@bob")
    before = office.head()
    await office.store.remove_agent("bob")
    assert office.one("select default_agent from conversations") is None
    # a change of an entity is an event, in the same transaction
    assert sorted(office.kinds(before)) == ["agent_removed", "conversation_changed"]
    await office.send("hi")
    assert office.one("select agent from messages") == "ada"


async def test_who_is_not_there_cannot_be_removed_or_join_a_team(office: Any) -> None:
    with pytest.raises(UnknownAgent, match="did you mean 'bob'"):
        await office.store.remove_agent("bub")
    with pytest.raises(UnknownAgent):
        await office.store.add_team(id="crew", name="Crew", leader="ada", members=["nobody"])
    assert office.rows("select * from teams") == []


async def test_a_team_has_its_leader_among_its_members(office: Any) -> None:
    await office.store.add_team(id="crew", name="Crew", leader="ada", members=["bob"])
    assert office.rows("select agent from team_members order by agent") == [("ada",), ("bob",)]
    accepted = await office.send("@crew hello")
    assert [message["agent"] for message in accepted.messages] == ["ada"]


async def test_an_office_is_new_until_its_first_agent(office: Any, tmp_path: Any) -> None:
    fresh = Store(tmp_path / "fresh.db", durability="crash")
    assert await fresh.is_new()
    await fresh.add_agent(id="ada", provider="rehearsal")
    assert not await fresh.is_new()
    await fresh.remove_agent("ada")
    assert not await fresh.is_new()
    fresh.close()


async def test_a_held_message_is_work_too(office: Any) -> None:
    message = await office.sent(to="ada")
    office.rules = replace(office.rules, limits=Limits(hops=0))
    _, desk = await office.begin()
    await desk.say("[@bob: again]").ack(message).take()
    assert office.statuses() == ["completed", "held"]
    with pytest.raises(BadInput, match="still has 1 message"):
        await office.store.remove_agent("bob")


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_an_agent_runs_as_often_at_once_as_its_card_says(office: Any, concurrency: int) -> None:
    """Two sessions of one agent are two lanes; whether both run is the agent's concurrency."""
    await office.sent(to="ada")

    def second_session(tx: Any) -> None:
        tx.run("update agents set concurrency = ? where id = 'ada'", (concurrency,))
        lane = session(tx, "ada", conversation="elsewhere", mode="shared")
        body = tx.body("hi")
        tx.insert(
            "messages",
            {
                "message_id": "api_second", "trace": "trace_second", "session": lane, "lane": lane, "queue": "ada",
                "agent": "ada", "body": body, "channel": "console", "platform_id": "elsewhere", "sender": "you",
                "created_at": tx.now, "updated_at": tx.now, **MESSAGES.entry(tx, lane),
            },
        )  # fmt: skip
        tx.count("messages", "ada", None, 0)

    await office.store._do(second_session)
    assert len(await office.claim()) == concurrency
    assert len(await office.claim()) == 0


async def test_a_paused_agent_begins_nothing_and_others_do_not_notice(office: Any, reader: Any) -> None:
    assert await office.store.pause("ada")
    assert not await office.store.pause("ada")
    waiting = [await office.sent(str(n), to="ada", priority=100) for n in range(3)]
    other = await office.sent(to="bob", priority=-100)
    (claimed,) = await office.claim(most=1)
    assert [work.message_id for work in claimed.messages] == [other]
    assert await office.claim() == []
    assert {row["id"]: row["paused"] for row in reader.agents()} == {"ada": True, "bob": False, "cyd": False}
    assert await office.store.resume("ada")
    assert not await office.store.resume("ada")
    (claimed,) = await office.claim()
    assert [work.message_id for work in claimed.messages] == waiting
    assert [kind for kind in office.kinds() if kind.startswith(("agent_paused", "agent_resumed"))] == [
        "agent_paused", "agent_resumed",
    ]  # fmt: skip


async def test_what_a_paused_agent_has_begun_it_ends_and_its_retries_wait(office: Any, clock: Any) -> None:
    message = await office.sent(to="ada")
    _, desk = await office.begin()
    await office.store.pause("ada")
    await desk.fail(message).take()
    assert office.status(message) == "pending"
    clock.advance(60_000)
    assert await office.claim() == []
    # its timer rang once: nobody is woken for it again and again
    assert await office.store.next_timer() is None
    await office.store.resume("ada")
    assert len(await office.claim()) == 1


async def test_only_an_agent_can_be_paused(office: Any) -> None:
    for verb in (office.store.pause, office.store.resume):
        with pytest.raises(UnknownAgent, match="did you mean 'ada'"):
            await verb("adda")


async def test_only_what_is_given_is_changed(office: Any) -> None:
    card = await office.store.add_agent(id="dan", provider="rehearsal", name="Dan", model="m-1", options={"a": 1})
    before, after = await office.store.edit_agent("dan", {"name": "Daniel", "concurrency": 3, "model": None})
    assert before == card
    assert after == {**card, "name": "Daniel", "concurrency": 3, "model": None, "updated_at": after["updated_at"]}
    event = json.loads(office.rows("select data from events where kind = 'agent_changed'")[-1][0])
    assert event == {"before": before, "after": after, "actor": "owner"}


async def test_what_changes_nothing_is_no_event(office: Any) -> None:
    await office.store.edit_agent("bob", {"concurrency": 2})
    before = office.everything()
    assert (await office.store.edit_agent("bob", {"concurrency": 2}))[1]["concurrency"] == 2
    assert office.everything() == before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"concurrency": 0}, "from 1 to 64"),
        ({"concurrency": 65}, "from 1 to 64"),
        ({"concurrency": True}, "from 1 to 64"),
        ({"name": " "}, "one line of 1 to 80"),
        ({"name": "a\nb"}, "one line of 1 to 80"),
        ({"name": "x" * 81}, "one line of 1 to 80"),
        ({"reaches": ["bob"]}, "cannot be permitted to reach itself"),
        ({"reaches": ["nobody"]}, "There is no agent 'nobody'"),
        ({"reaches": ["crew"]}, "'crew' is a team"),
        ({"workspace": "/etc"}, "'workspace' of an agent cannot be changed"),
    ],
)
async def test_what_an_agent_cannot_be(office: Any, changes: dict[str, Any], why: str) -> None:
    await office.store.add_team(id="crew", leader="ada")
    before = office.everything()
    with pytest.raises(BadInput, match=why):
        await office.store.edit_agent("bob", changes)
    assert office.everything() == before


async def test_permission_is_one_way_and_crosses_teams(office: Any) -> None:
    await office.store.add_team(id="crew", leader="ada")
    people = await office.store.directory()
    assert not people.may_address("bob", "ada")
    await office.store.edit_agent("bob", {"reaches": ["ada"]})
    people = await office.store.directory()
    assert people.may_address("bob", "ada")
    assert not people.may_address("ada", "bob")
    message = await office.sent(to="bob")
    _, desk = await office.begin()
    await desk.say("[@ada: over to you]").ack(message).take()
    assert office.rows("select agent, status from messages order by id") == [("bob", "completed"), ("ada", "pending")]


async def test_permission_ends_with_the_agent(office: Any) -> None:
    """Whoever comes under the same name later is somebody else."""
    await office.store.edit_agent("bob", {"reaches": ["ada", "cyd"]})
    await office.store.edit_agent("cyd", {"reaches": ["ada"]})
    await office.store.remove_agent("cyd")
    assert (await office.store.agent("bob"))["reaches"] == ["ada"]
    card = await office.store.add_agent(id="cyd", provider="rehearsal")
    assert (card["reaches"], card["concurrency"]) == ([], 1)
    assert office.kinds().count("agent_changed") == 3
