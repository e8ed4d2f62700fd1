"""Every workspace is there, and every manual knows who is here: after each change, and again at the start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.office.acts.base import Means
from manydesks.office.clerk import Clerk
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.store import Store


class Office:
    def __init__(self, home: Home) -> None:
        self.home = home
        self.store = Store(home.office_db, durability="crash")
        self.clerk = Clerk(Means(store=self.store, home=home, in_force=InForce(Settings())))

    async def do(self, verb: str, **args: Any) -> dict[str, Any]:
        return await self.clerk.perform(verb, args)

    def manual(self, agent: str) -> Path:
        return self.home.workspace(agent) / "AGENTS.md"


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    home = Home(tmp_path / "home")
    home.prepare()
    made = Office(home)
    for id in ("ada", "bob", "cyd"):
        await made.do("agent_add", id=id, name=id.title())
    yield made
    made.store.close()


async def test_a_change_reaches_those_whom_it_concerns(office: Office) -> None:
    assert "`@cyd`: Cyd" in office.manual("ada").read_text()
    await office.do("team_add", id="crew", leader="ada", members=["bob"])
    assert "`[#crew: text]`" in office.manual("bob").read_text()
    assert "nobody whom you may address" in office.manual("cyd").read_text()
    await office.do("agent_edit", id="cyd", changes={"reaches": ["bob"]})
    assert "`@bob`: Bob" in office.manual("cyd").read_text()
    await office.do("agent_edit", id="bob", changes={"name": "Robert"})
    for other in ("ada", "cyd"):
        assert "`@bob`: Robert" in office.manual(other).read_text()
    await office.do("team_edit", id="crew", add=["cyd"], remove=["bob"])
    assert "`@cyd`: Cyd" in office.manual("ada").read_text()
    await office.do("team_remove", id="crew")
    assert "#crew" not in office.manual("ada").read_text()
    await office.do("agent_remove", id="bob")
    assert "Robert" not in office.manual("ada").read_text()


async def test_the_default_agent_does_not_go_without_a_word(office: Office) -> None:
    assert "notices" not in await office.do("agent_remove", id="cyd")
    await office.do("agent_add", id="assistant")
    (notice,) = (await office.do("agent_remove", id="assistant"))["notices"]
    assert "'assistant' was the office's default agent" in notice
    with pytest.raises(BadInput, match="Nobody would get this"):
        await office.do("send", text="hello")


async def test_only_what_changes_is_written(office: Office) -> None:
    await office.do("team_add", id="crew", leader="ada", members=["bob"])
    before = {id: office.manual(id).stat().st_ino for id in ("ada", "bob", "cyd")}
    await office.do("agent_edit", id="bob", changes={"name": "Robert"})
    after = {id: office.manual(id).stat().st_ino for id in ("ada", "bob", "cyd")}
    assert [id for id in after if after[id] != before[id]] == ["ada"]


async def test_a_start_makes_up_for_what_was_cut_off(office: Office) -> None:
    """Killed after the commit, before the files: the store is ahead of the manuals."""
    await office.store.add_team(id="crew", leader="ada", members=["bob"])
    assert "crew" not in office.manual("bob").read_text()
    await office.clerk.refresh()
    assert "crew" in office.manual("bob").read_text()


async def test_a_workspace_that_is_gone_is_made(office: Office) -> None:
    office.home.workspace("bob").rename(office.home.path / "elsewhere")
    await office.clerk.refresh()
    assert "`@ada`: Ada" in office.manual("bob").read_text()
    assert (office.home.workspace("bob") / "SOUL.md").exists()


async def test_one_that_fails_is_said_and_stops_nobody_else(office: Office, tmp_path: Path) -> None:
    office.manual("ada").unlink()
    office.manual("ada").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("mine <!-- manydesks:mates --><!-- /manydesks:mates -->")
    done = await office.do("team_add", id="crew", leader="bob", members=["cyd"])
    (notice,) = done["notices"]
    assert notice.startswith("The manual of 'ada' could not be brought up to date: 'AGENTS.md' is a symbolic link")
    assert "crew" in office.manual("bob").read_text()
    assert (tmp_path / "secret").read_text() == "mine <!-- manydesks:mates --><!-- /manydesks:mates -->"


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("agent_add", {"id": "dan", "reaches": "ada"}),
        ("agent_add", {"id": "dan", "reaches": [1]}),
        ("agent_add", {"id": "dan", "concurrency": "2"}),
        ("agent_edit", {"id": "ada", "changes": {}}),
        ("agent_edit", {"id": "ada", "changes": []}),
        ("agent_edit", {"id": "ada", "changes": {"paused": 1}}),
        ("agent_edit", {"id": "ada", "changes": {"name": 1}}),
        ("agent_edit", {"id": "ada", "changes": {"provider": "nobody"}}),
        ("agent_edit", {"id": "ada", "changes": {"sandbox": "nobody"}}),
        ("agent_edit", {"id": "ada", "changes": {"set_options": {"nothing": 1}}}),
        ("agent_edit", {"id": "ada", "changes": {"set_options": []}}),
        ("agent_edit", {"id": "ada", "changes": {"unset_options": ["script"]}}),
        ("agent_edit", {"id": "ada", "changes": {"budget": "much"}}),
        ("team_add", {"id": "crew", "leader": "ada", "members": "bob"}),
        ("team_edit", {"id": "crew"}),
    ],
)
async def test_what_another_process_asks_is_checked(office: Office, verb: str, args: dict[str, Any]) -> None:
    before = {id: office.manual(id).stat() for id in ("ada", "bob", "cyd")}
    card = await office.store.agent("ada")
    with pytest.raises(BadInput):
        await office.do(verb, **args)
    assert await office.store.agent("ada") == card
    assert {id: office.manual(id).stat() for id in before} == before


async def test_options_are_set_and_unset_one_by_one(office: Office) -> None:
    await office.do("agent_edit", id="ada", changes={"set_options": {"script": "a.txt"}})
    done = await office.do("agent_edit", id="ada", changes={"name": "A"})
    assert done["options"] == {"script": "a.txt"}
    changes = {"unset_options": ["script"], "set_options": {"recording": "b.jsonl"}, "model": "m"}
    done = await office.do("agent_edit", id="ada", changes={**changes, "budget": "5runs/day"})
    assert (done["options"], done["model"], done["budget"]) == ({"recording": "b.jsonl"}, "m", {"runs": 5})
    done = await office.do("agent_edit", id="ada", changes={"model": "", "budget": "none"})
    assert (done["model"], done["budget"], done["changed"]) == (None, None, True)
    assert not (await office.do("agent_edit", id="ada", changes={"model": ""}))["changed"]
