"""Teams: who is in which, with every change in the ledger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manydesks.domain.errors import BadInput, UnknownAgent, UnknownTeam


@pytest.fixture
async def crew(office: Any) -> Any:
    """ada leads bob; cyd is in no team."""
    await office.store.add_team(id="crew", name="The crew", leader="ada", members=["bob"])
    return office


async def test_a_change_is_told_with_what_was_before(crew: Any) -> None:
    edited = await crew.store.edit_team("crew", name="Crew", leader="cyd", remove=["ada"])
    assert edited == {"id": "crew", "name": "Crew", "leader": "cyd", "members": ["bob", "cyd"]}
    ((data,),) = crew.rows("select data from events where kind = 'team_changed'")
    before = {"id": "crew", "name": "The crew", "leader": "ada", "members": ["ada", "bob"]}
    assert json.loads(data) == {"before": before, "after": edited, "actor": "owner"}


async def test_what_changes_nothing_is_no_event(crew: Any) -> None:
    before = crew.everything()
    await crew.store.edit_team("crew", name="The crew", leader="ada", add=["bob"])
    assert crew.everything() == before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"remove": ["ada"]}, "'ada' leads the team 'crew'"),
        ({"remove": ["cyd"]}, "'cyd' is not in the team 'crew'"),
        ({"add": ["cyd"], "remove": ["cyd"]}, "cannot join the team 'crew' and leave it at once"),
        ({"leader": "bob", "remove": ["bob"]}, "cannot join the team 'crew' and leave it at once"),
        ({"add": ["cid"]}, r"There is no agent 'cid' \(did you mean 'cyd'"),
        ({"leader": "nobody"}, "There is no agent 'nobody'"),
        ({"name": ""}, "one line of 1 to 80"),
    ],
)
async def test_what_a_team_cannot_be(crew: Any, changes: dict[str, Any], why: str) -> None:
    before = crew.everything()
    with pytest.raises(BadInput, match=why):
        await crew.store.edit_team("crew", **changes)
    assert crew.everything() == before


async def test_a_removed_team_frees_its_members_and_its_name(crew: Any) -> None:
    assert (await crew.store.remove_team("crew"))["members"] == ["ada", "bob"]
    assert (await crew.store.directory()).may_address("ada", "cyd")
    with pytest.raises(UnknownTeam):
        await crew.store.remove_team("crew")
    await crew.store.add_agent(id="crew", provider="rehearsal")
    assert crew.kinds()[-2:] == ["team_removed", "agent_added"]


async def test_an_agent_that_is_removed_leaves_its_teams(crew: Any) -> None:
    await crew.store.add_team(id="other", leader="cyd", members=["bob"])
    await crew.store.remove_agent("bob")
    assert crew.kinds()[-3:] == ["team_changed", "team_changed", "agent_removed"]
    assert crew.rows("select team, agent from team_members order by team") == [("crew", "ada"), ("other", "cyd")]


async def test_who_is_not_there(crew: Any, reader: Any) -> None:
    with pytest.raises(UnknownTeam, match="did you mean 'crew'"):
        await crew.store.edit_team("crow", name="x")
    with pytest.raises(UnknownAgent):
        await crew.store.add_team(id="other", leader="nobody")
    assert [team["id"] for team in reader.teams()] == ["crew"]


async def test_as_readers_see_it(crew: Any, reader: Any) -> None:
    await crew.store.edit_agent("cyd", {"reaches": ["ada"], "concurrency": 4})
    assert reader.teams() == [{"id": "crew", "name": "The crew", "leader": "ada", "members": ["ada", "bob"]}]
    cards = {row["id"]: (row["teams"], row["reaches"], row["concurrency"]) for row in reader.agents()}
    assert cards == {"ada": (["crew"], [], 1), "bob": (["crew"], [], 1), "cyd": ([], ["ada"], 4)}


async def test_the_room(crew: Any, reader: Any) -> None:
    """A post to `#team` goes to every member as it is: nothing in it is read as an address."""
    for text in ("one [@cyd: x]", "two ]", "three"):
        accepted = await crew.send(text, to="#Crew")
        assert [message["agent"] for message in accepted.messages] == ["ada", "bob"]
    posts = reader.posts("crew", limit=2)
    assert [post["text"] for post in posts] == ["two ]", "three"]
    assert posts[0]["fromAgent"] is None
    assert reader.posts("crew", after=posts[0]["id"]) == posts[1:]
    assert crew.rows("select distinct agent from messages order by 1") == [("ada",), ("bob",)]
    with pytest.raises(UnknownTeam, match="did you mean 'crew'"):
        await crew.send("hello", to="#crow")


async def test_what_was_said_outlives_the_team(crew: Any, reader: Any) -> None:
    await crew.send("hello", to="#crew")
    await crew.store.remove_team("crew")
    assert crew.statuses() == ["pending", "pending"]
    assert len(await crew.claim()) == 2
    assert [post["text"] for post in reader.posts("crew")] == ["hello"]
