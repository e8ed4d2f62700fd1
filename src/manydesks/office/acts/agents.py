"""Agents: who works here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from manydesks.desk.furnish import checked_options, way_of
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.budget import parse_budget
from manydesks.domain.errors import BadInput, HomeError
from manydesks.domain.ids import is_name
from manydesks.office.acts.base import Act, Means, storable, strings, strings_if_given
from manydesks.office.upstreams import upstream_of, upstreams
from manydesks.office.workspace.furnish import furnish_workspace
from manydesks.office.workspace.manuals import Manuals
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import reason_of

#: what `agent_edit` takes, each as text unless it says otherwise; `budget` as `parse_budget` reads it
CHANGES = ("name", "provider", "model", "sandbox", "concurrency", "reaches", "budget", "set_options", "unset_options")


class AgentActs:
    def __init__(self, means: Means, manuals: Manuals) -> None:
        self._store = means.store
        self._home = means.home
        self._in_force = means.in_force
        self._manuals = manuals
        self._editing = asyncio.Lock()

    def acts(self) -> Mapping[str, Act]:
        return {
            "agent_add": self.agent_add,
            "agent_edit": self.agent_edit,
            "agent_remove": self.agent_remove,
            "agent_reset": self.agent_reset,
            "pause": self.pause,
            "resume": self.resume,
            "manuals": self.manuals,
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
        concurrency: int = 1,
        reaches: list[str] | None = None,
        budget: str | None = None,
    ) -> dict[str, Any]:
        strings(id=id)
        strings_if_given(name=name, provider=provider, model=model, sandbox=sandbox, budget=budget)
        provider = provider or "rehearsal"
        if options is not None and not isinstance(options, dict):
            raise BadInput("'options' must be an object.")
        storable("options", options)
        self._check(provider, sandbox, options or {})
        caps = parse_budget(budget) if budget is not None else None
        if is_name(id):  # else the store says what a name is
            self._furnish_workspace(id, name or id)
        added = await self._store.add_agent(
            id=id,
            name=name,
            provider=provider,
            model=model,
            sandbox=sandbox,
            options=options,
            concurrency=concurrency,
            reaches=_ids(reaches or [], "reaches"),
            budget=caps,
        )
        return await self._told(added)

    async def agent_edit(self, *, id: str, changes: Any, version: str | None = None) -> dict[str, Any]:
        """Change what is given. An empty `model` or `sandbox` is the default again; options are set and unset one by
        one. `version`: what was read; it is `Stale` if somebody else has changed it since."""
        strings(id=id)
        strings_if_given(version=version)
        if not isinstance(changes, dict) or not changes:
            raise BadInput("Nothing was given that could be changed.")
        if unknown := sorted(changes.keys() - set(CHANGES)):
            raise BadInput(f"'{unknown[0]}' of an agent cannot be changed; {', '.join(CHANGES)} can.")
        news = dict(changes)
        strings(**{key: news[key] for key in ("name", "provider", "model", "sandbox", "budget") if key in news})
        given, gone = news.pop("set_options", {}), news.pop("unset_options", [])
        if not isinstance(given, dict):
            raise BadInput("'set_options' must be an object.")
        storable("set_options", given)
        _ids(gone, "unset_options")
        for key in ("model", "sandbox"):
            if key in news:
                news[key] = news[key] or None
        if "budget" in news:
            news["budget"] = parse_budget(news["budget"]) or None
        if "reaches" in news:
            _ids(news["reaches"], "reaches")
        async with self._editing:
            card = await self._store.agent(id)
            if given or gone:
                if missing := next((option for option in gone if option not in card["options"]), None):
                    raise BadInput(f"The agent '{id}' has no option '{missing}' of its own.")
                kept = {key: value for key, value in card["options"].items() if key not in gone}
                news["options"] = {**kept, **given}
            after = {**card, **news}
            if news.keys() & {"provider", "sandbox", "options"}:
                self._check(after["provider"], after["sandbox"], after["options"])
            before, after = await self._store.edit_agent(id, news, version=version)
        return await self._told({**after, "changed": before != after})

    def _check(self, provider: str, sandbox: str | None, options: Mapping[str, Any]) -> None:
        if provider not in (known := Providers().names()):
            raise BadInput(f"There is no provider '{provider}'; there are {', '.join(known)}.")
        if sandbox is not None and sandbox not in (known := Sandboxes().names()):
            raise BadInput(f"There is no sandbox '{sandbox}'; there are {', '.join(known)}.")
        if empty := next((name for name, value in options.items() if value is None), None):
            raise BadInput(f"The option '{empty[:80]}' has no value; an option that is not wanted is left out.")
        found, settings = Providers().get(provider), self._in_force.settings
        way = way_of(found, checked_options(found, options, settings))
        if way is not None:
            # its key may come later; a server that nobody has named does not
            upstream_of(way, {upstream.name: upstream for upstream in upstreams(settings)})

    def _furnish_workspace(self, agent: str, name: str) -> None:
        """Before the agent is stored: an agent without a folder could not be mended by adding it again."""
        folder = self._home.workspace(agent)
        try:
            furnish_workspace(folder, agent=agent, name=name)
        except OSError as error:
            raise HomeError(home=self._home.path, reason=f"{folder} cannot be created, {reason_of(error)}.") from error

    async def agent_remove(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        told = await self._told(await self._store.remove_agent(id))
        if id != self._in_force.settings.office.default_agent:
            return told
        warning = (
            f"'{id}' was the office's default agent: a message that names nobody is refused until there is another "
            "(office.default_agent in the settings)."
        )
        return {**told, "notices": [*told.get("notices", ()), warning]}

    async def agent_reset(self, *, id: str) -> dict[str, Any]:
        """The agent forgets its conversations: each session goes on as a new one, with what waits."""
        strings(id=id)
        return {"agent": id, "sessions": await self._store.reset_agent(id)}

    async def manuals(self) -> dict[str, Any]:
        """Somebody has written a manual: what the office says in it is put back."""
        return {"notices": await self._manuals.refresh()}

    async def _told(self, result: dict[str, Any]) -> dict[str, Any]:
        """Others learn of it from their manuals. It is stored already, so a manual that fails is only said."""
        notices = await self._manuals.refresh()
        return {**result, "notices": notices} if notices else result

    async def pause(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return {"agent": id, "paused": True, "changed": await self._store.pause(id)}

    async def resume(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return {"agent": id, "paused": False, "changed": await self._store.resume(id)}


def _ids(given: object, what: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(id, str) for id in given):
        raise BadInput(f"'{what}' must be a list of names.")
    for id in given:
        strings(**{what: id})
    return given
