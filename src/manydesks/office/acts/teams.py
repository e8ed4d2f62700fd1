"""Teams: agents with a leader and a room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.office.acts.base import Act, Means, strings, strings_if_given
from manydesks.office.workspace.manuals import Manuals


class TeamActs:
    def __init__(self, means: Means, manuals: Manuals) -> None:
        self._store = means.store
        self._manuals = manuals

    def acts(self) -> Mapping[str, Act]:
        return {"team_add": self.team_add, "team_edit": self.team_edit, "team_remove": self.team_remove}

    async def team_add(
        self, *, id: str, leader: str, name: str | None = None, members: list[str] | None = None
    ) -> dict[str, Any]:
        strings(id=id, leader=leader)
        strings_if_given(name=name)
        _agents(members=members)
        return await self._told(await self._store.add_team(id=id, name=name, leader=leader, members=members or []))

    async def team_edit(
        self,
        *,
        id: str,
        name: str | None = None,
        leader: str | None = None,
        add: list[str] | None = None,
        remove: list[str] | None = None,
        exactly: list[str] | None = None,
        version: str | None = None,
    ) -> dict[str, Any]:
        """`exactly`: who is in it from now on. `version`: what was read; `Stale` if it was changed since."""
        strings(id=id)
        strings_if_given(name=name, leader=leader, version=version)
        _agents(add=add, remove=remove, exactly=exactly)
        if name is None and leader is None and not add and not remove and exactly is None:
            raise BadInput("Nothing was given that could be changed.")
        edited = await self._store.edit_team(
            id, name=name, leader=leader, add=add or [], remove=remove or [], exactly=exactly, version=version
        )
        return await self._told(edited)

    async def team_remove(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return await self._told(await self._store.remove_team(id))

    async def _told(self, result: dict[str, Any]) -> dict[str, Any]:
        """Its members learn of it from their manuals. It is stored already, so a manual that fails is only said."""
        notices = await self._manuals.refresh()
        return {**result, "notices": notices} if notices else result


def _agents(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not (isinstance(value, list) and all(isinstance(id, str) for id in value)):
            raise BadInput(f"'{name}' must be a list of agents.")
        for id in value if isinstance(value, list) else ():
            strings(**{name: id})
