"""Who can be addressed is read once for each change, and never remembered from a change that did not happen."""

from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.errors import BadInput


async def test_every_change_of_people_is_seen(office: Any) -> None:
    store = office.store
    before = await store.directory()
    assert await store.directory() is before
    await store.add_agent(id="dan", provider="rehearsal")
    assert "dan" in (await store.directory()).agents
    await store.edit_agent("dan", {"name": "Daniel"})
    assert (await store.directory()).agents["dan"] == "Daniel"
    await store.edit_agent("dan", {"reaches": ["ada"]})
    assert (await store.directory()).reaches["dan"] == {"ada"}
    await store.add_team(id="trio", name="Trio", leader="ada", members=["bob"])
    assert (await store.directory()).teams["trio"].everyone == ("ada", "bob")
    await store.edit_team("trio", add=["dan"])
    assert "dan" in (await store.directory()).teams["trio"].everyone
    await store.remove_team("trio")
    assert "trio" not in (await store.directory()).teams
    await store.remove_agent("dan")
    assert "dan" not in (await store.directory()).agents


async def test_what_matters_to_no_address_draws_no_number(office: Any) -> None:
    before = await office.store.directory()
    await office.store.pause("ada")
    assert await office.store.directory() is before


async def test_a_change_that_was_rolled_back_is_not_remembered(office: Any) -> None:
    from manydesks.store.directory import directory

    store = office.store

    def adds_and_fails(tx: Any) -> None:
        tx.run("update agents set name = 'Nobody' where id = 'ada'")
        assert directory(tx).agents["ada"] == "Nobody"
        raise BadInput("no")

    with pytest.raises(BadInput):
        await store._do(adds_and_fails)
    assert (await store.directory()).agents["ada"] != "Nobody"
