"""Agents: who works here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.desk.furnish import checked_options
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.errors import BadInput, HomeError
from manydesks.domain.ids import is_name
from manydesks.office.acts.base import Act, Means, strings, strings_if_given
from manydesks.office.workspace.furnish import furnish_workspace
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import reason_of


class AgentActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._home = means.home
        self._in_force = means.in_force

    def acts(self) -> Mapping[str, Act]:
        return {
            "agent_add": self.agent_add,
            "agent_remove": self.agent_remove,
            "pause": self.pause,
            "resume": self.resume,
        }

    async def agent_add(
        self,
        *,
        id: str,
        name: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        sandbox: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        strings(id=id)
        strings_if_given(name=name, provider=provider, model=model, sandbox=sandbox)
        provider = provider or "rehearsal"
        if provider not in (known := Providers().names()):
            raise BadInput(f"There is no provider '{provider}'; there are {', '.join(known)}.")
        if sandbox is not None and sandbox not in (known := Sandboxes().names()):
            raise BadInput(f"There is no sandbox '{sandbox}'; there are {', '.join(known)}.")
        checked_options(Providers().get(provider), options or {}, self._in_force.settings)
        if is_name(id):  # else the store says what a name is
            self._furnish_workspace(id, name or id)
        return await self._store.add_agent(
            id=id, name=name, provider=provider, model=model, sandbox=sandbox, options=options
        )

    def _furnish_workspace(self, agent: str, name: str) -> None:
        """Before the agent is stored: an agent without a folder could not be mended by adding it again."""
        folder = self._home.workspace(agent)
        try:
            furnish_workspace(folder, agent=agent, name=name)
        except OSError as error:
            raise HomeError(home=self._home.path, reason=f"{folder} cannot be created, {reason_of(error)}.") from error

    async def agent_remove(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return await self._store.remove_agent(id)

    async def pause(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return {"agent": id, "paused": True, "changed": await self._store.pause(id)}

    async def resume(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return {"agent": id, "paused": False, "changed": await self._store.resume(id)}
