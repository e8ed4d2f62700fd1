"""Listeners: each plugin is told of events at its own pace, from the ledger, behind a mark that survives restarts.

Every event of the wanted kinds comes at least once: what was told after the last mark is told again after a crash.
Nothing waits for a listener, and nothing is kept for it but its mark.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from manydesks.domain.errors import LedgerPruned, StoreError
from manydesks.office.hooks.base import EVERY
from manydesks.office.hooks.failures import Failures
from manydesks.office.hooks.line import HookFailed, LeftOut
from manydesks.office.hooks.plugin import Plugin
from manydesks.office.inforce import InForce
from manydesks.office.wire import SOCKET
from manydesks.settings.home import Home
from manydesks.store.reader import Reader
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: events read at once; the mark is moved after each such page
PAGE = 100
#: so many events that nobody wanted are passed before the mark is moved for them
STRIDE = 1_000
#: a lost wake-up costs this
LOOK_SECONDS = 1.0


@dataclass
class Place:
    """How far a plugin has got."""

    #: told up to here
    at: int
    #: and stored, so that the next host knows
    mark: int


class Listening:
    """One for each host; a task for each plugin that listens."""

    def __init__(self, store: Store, home: Home, in_force: InForce, failures: Failures) -> None:
        self._store = store
        self._home = home
        self._in_force = in_force
        self._failures = failures
        self._tasks: list[asyncio.Task[None]] = []
        self._bells: list[asyncio.Event] = []

    def follow(self, plugins: list[Plugin]) -> None:
        for plugin in plugins:
            bell = asyncio.Event()
            task = asyncio.create_task(self._follow(plugin, bell))
            task.add_done_callback(_say_why)
            self._bells.append(bell)
            self._tasks.append(task)

    def news(self) -> None:
        for bell in self._bells:
            bell.set()

    async def stop(self) -> None:
        tasks, self._tasks, self._bells = self._tasks, [], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, plugin: Plugin, bell: asyncio.Event) -> None:
        reader: Reader | None = None
        place: Place | None = None
        try:
            while plugin.listens():
                bell.clear()
                try:
                    if reader is None:
                        reader = await asyncio.to_thread(
                            Reader, self._store.path, sockets=self._home.socket(SOCKET).parent
                        )
                    if place is None:
                        # a plugin that was never here begins with what comes, not with all that ever was
                        mark = await self._store.listener_mark(plugin.name)
                        place = Place(at=mark, mark=mark)
                    await self._tell_all(plugin, reader, place)
                except StoreError as error:
                    # a full disk, say: the mark stays, and what was told since is told again
                    log.error("A listener has to wait: %s", error, extra={"action": "listener_waits"})
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await bell.wait()
                except TimeoutError:
                    pass
        finally:
            if reader is not None:
                reader.close()
            if place is not None:
                # also when it is stopped in the middle of a page: settings that are read again repeat nothing that was
                # told; where the store cannot, they do
                with contextlib.suppress(StoreError):
                    await self._remember(plugin, place)

    async def _tell_all(self, plugin: Plugin, reader: Reader, place: Place) -> None:
        """Everything from its place to the ledger's head."""
        kinds = None if EVERY in plugin.kinds() else sorted(plugin.kinds())
        while plugin.listens():
            try:
                # the head first: what comes between the two looks is found by the next
                head = await asyncio.to_thread(reader.head)
                events = await asyncio.to_thread(reader.told_events, place.at, PAGE, kinds)
            except LedgerPruned as pruned:
                first = int(str(pruned.details["first"]))
                reason = f"the events {place.at + 1} to {first - 1} were pruned before it was told of them"
                await self._failures.note(plugin.name, "on", reason)
                place.at = first - 1
                continue
            for event in events:
                if not await self._tell(plugin, event):
                    break
                place.at = int(event["seq"])
            else:
                if len(events) < PAGE:
                    place.at = max(place.at, head)
            if events or place.at - place.mark >= STRIDE:
                await self._remember(plugin, place)
            if len(events) < PAGE:
                return

    async def _remember(self, plugin: Plugin, place: Place) -> None:
        if place.at > place.mark:
            await self._store.move_listener(plugin.name, place.at)
            place.mark = place.at

    async def _tell(self, plugin: Plugin, event: dict[str, Any]) -> bool:
        """False: nobody of it listens since; it gets this one again when it is loaded again."""
        for spec in plugin.listeners(str(event["kind"])):
            try:
                await plugin.ask(spec, event, spec.timeout or self._in_force.settings.hooks.timeout_seconds)
            except HookFailed as failed:
                left_out = isinstance(failed, LeftOut)
                await self._failures.note(plugin.name, f"on {spec.name}", str(failed), at_once=left_out)
        return plugin.listens()


def _say_why(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("A listener has failed; it is told nothing until the settings are read again", exc_info=error,
                  extra={"action": "listener_failed"})  # fmt: skip
