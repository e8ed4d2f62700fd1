"""The workspaces of all agents: each is there, and its manual knows whom the agent can reach."""

from __future__ import annotations

import asyncio
import logging

from manydesks.domain.errors import ManyDesksError
from manydesks.domain.routing import Directory
from manydesks.office.workspace import manual
from manydesks.office.workspace.furnish import furnish_workspace
from manydesks.office.workspace.roster import roster
from manydesks.settings.home import Home, reason_of
from manydesks.store.store import Store

log = logging.getLogger(__name__)


class Manuals:
    """Done after a change of agents or teams is stored, and at every start: what was cut off is made up for then."""

    def __init__(self, store: Store, home: Home) -> None:
        self._store = store
        self._home = home
        self._one_at_a_time = asyncio.Lock()

    async def refresh(self) -> list[str]:
        """Make what is missing, write what has changed; a sentence for each workspace where that failed."""
        async with self._one_at_a_time:
            # read inside: whoever comes later knows at least as much
            people = await self._store.directory()
            return await asyncio.to_thread(self._refresh, people)

    def _refresh(self, people: Directory) -> list[str]:
        failed = []
        for agent, name in people.agents.items():
            folder = self._home.workspace(agent)
            try:
                if not folder.exists():
                    furnish_workspace(folder, agent=agent, name=name)
                manual.refresh(folder, roster(people, agent))
            except (ManyDesksError, OSError) as error:
                why = reason_of(error) if isinstance(error, OSError) else str(error)
                failed.append(f"The manual of '{agent}' could not be brought up to date: {why.rstrip('.')}.")
                log.warning("%s", failed[-1], extra={"action": "manual_not_renewed"})
        return failed
