"""The clerk: every act that a surface may ask for, the same whether the host performs it or a lone command does."""

from __future__ import annotations

import inspect
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.office.acts.agents import AgentActs
from manydesks.office.acts.base import Act, Acts, Means
from manydesks.office.acts.forgetting import ForgettingActs
from manydesks.office.acts.hooks import HookActs
from manydesks.office.acts.messages import MessageActs
from manydesks.office.acts.office import OfficeActs
from manydesks.office.acts.questions import QuestionActs
from manydesks.office.acts.responses import ResponseActs
from manydesks.office.acts.teams import TeamActs
from manydesks.office.acts.upkeep import UpkeepActs
from manydesks.office.workspace.manuals import Manuals

FIRST_AGENT = "assistant"


class Clerk:
    """Knows who does what; each act checks what it is asked, then asks the store."""

    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._manuals = Manuals(means.store, means.home)
        self._agents = AgentActs(means, self._manuals)
        self._teams = TeamActs(means, self._manuals)
        groups: tuple[Acts, ...] = (
            MessageActs(means),
            self._agents,
            self._teams,
            OfficeActs(means),
            QuestionActs(means),
            ResponseActs(means),
            HookActs(means),
            UpkeepActs(means),
            ForgettingActs(means),
        )
        self._acts: dict[str, Act] = {name: act for group in groups for name, act in group.acts().items()}
        #: what each takes, looked up once: it takes longer than most of what an act does by itself
        self._takes = {name: inspect.signature(act) for name, act in self._acts.items()}

    async def perform(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """One act by its name; the arguments come from another process and are checked by the act."""
        act = self._acts.get(verb)
        if act is None:
            raise BadInput(f"There is no act '{verb}'; there are {', '.join(self._acts)}.")
        try:
            self._takes[verb].bind(**args)
        except TypeError as error:
            raise BadInput(f"'{verb}' does not take these arguments: {error}.") from error
        return await act(**args)

    async def furnish(self) -> None:
        """An office that never had an agent gets its first one."""
        if await self._store.is_new():
            await self._agents.agent_add(id=FIRST_AGENT, name="Assistant")

    async def refresh(self) -> None:
        """Every workspace is there and knows who is here: a command may have been cut off before it could see to it."""
        await self._manuals.refresh()
