"""Hooks that fail are said so: in the log, in the ledger, at a pace that a failing plugin cannot set."""

from __future__ import annotations

import logging
from typing import Any

from manydesks.domain.clock import Clock
from manydesks.domain.errors import StoreError
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: at most one event for each plugin and hook in this time, but for the one that it is left out, which is its last; how
#: often it failed meanwhile goes with the next
PACE_MS = 60_000


class Failures:
    """One for each host, or lone command."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        #: when it was last said, and how often it happened since
        self._said: dict[tuple[str, str], tuple[int, int]] = {}
        #: what went wrong last, by plugin
        self.last: dict[str, str] = {}

    async def note(self, plugin: str, hook: str, reason: str, *, at_once: bool = False, **about: Any) -> None:
        """Never raises: the message that a hook failed on does not wait for a word about it. `at_once`: at any pace."""
        self.last[plugin] = reason
        now = self._clock.monotonic()
        before, times = self._said.get((plugin, hook), (None, 0))
        if before is not None and now - before < PACE_MS and not at_once:
            self._said[plugin, hook] = (before, times + 1)
            return
        self._said[plugin, hook] = (now, 0)
        log.warning("The plugin %s was skipped (%s): %s", plugin, hook, reason, extra={"action": "hook_failed"})
        try:
            await self._store.note("hook_failed", plugin=plugin, hook=hook, reason=reason, times=times + 1, **about)
        except StoreError as error:
            log.error("That could not be stored: %s", error, extra={"action": "hook_failed_unsaid"})
