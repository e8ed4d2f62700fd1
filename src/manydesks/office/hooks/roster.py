"""Every plugin of an office, and the way of a message through them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Collected, Outbound
from manydesks.office.hooks.base import Spec
from manydesks.office.hooks.check import Changed, changed
from manydesks.office.hooks.failures import Failures
from manydesks.office.hooks.found import find
from manydesks.office.hooks.line import HookFailed, LeftOut
from manydesks.office.hooks.listening import Listening
from manydesks.office.hooks.plugin import Plugin
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.accept import check
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: all `incoming` hooks together: whoever sends waits 10 s for the office's word, and it may have to load them first
INCOMING_SECONDS = 4.0
NO_TIME = f"the time that all hooks have together, {INCOMING_SECONDS:g} s, was over before it was its turn"
#: what a hook reads of a desk's row; cards, questions and reactions pass as they are
HOOKED = (None, "edit")

Step = tuple[Plugin, Spec]


class Hooks:
    """Loaded when first needed; a message never waits for a plugin that is not needed for it."""

    def __init__(self, store: Store, home: Home, in_force: InForce, clock: Clock | None = None) -> None:
        self._store = store
        self._home = home
        self._in_force = in_force
        self._failures = Failures(store, clock or SystemClock())
        self._plugins: list[Plugin] = []
        self._loading: asyncio.Task[None] | None = None
        self._listening: Listening | None = None
        self._reloading: asyncio.Task[None] | None = None
        #: what the plugins were loaded with
        self._rules = in_force.settings.hooks

    def start(self) -> None:
        """Load what there is, and tell listeners from now on. Does not wait for either."""
        self._in_force.tell(self._settings_changed)
        self._listening = Listening(self._store, self._home, self._in_force, self._failures)
        self._begin()

    async def reload(self) -> None:
        """Find and load all plugins anew, with the settings that count now: changed files, and those that were off."""
        await self._ready()
        if self._listening is not None:
            await self._listening.stop()
        old, self._plugins = self._plugins, []
        # at once: whatever comes from now on waits for the new ones, and what is under way is finished by the old
        self._begin()
        await asyncio.gather(*(plugin.close() for plugin in old))
        await self._ready()

    def reload_soon(self) -> None:
        """`reload`, beside everything else; once more if one is under way."""
        before = self._reloading

        async def again() -> None:
            if before is not None:
                await asyncio.gather(before, return_exceptions=True)
            await self.reload()

        self._reloading = asyncio.create_task(again())

    def _settings_changed(self, settings: Settings) -> None:
        rules, self._rules = self._rules, settings.hooks
        if (rules.enabled, rules.disabled) != (settings.hooks.enabled, settings.hooks.disabled):
            self.reload_soon()

    async def stop(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
        if self._listening is not None:
            await self._listening.stop()
        if self._loading is not None:
            self._loading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loading
        await asyncio.gather(*(plugin.close() for plugin in self._plugins))

    def news(self) -> None:
        """Something was committed."""
        if self._listening is not None:
            self._listening.news()

    async def listed(self) -> list[dict[str, Any]]:
        """Every plugin, as a surface shows it."""
        await self._ready()
        return [plugin.as_json(self._failures.last.get(plugin.name)) for plugin in self._plugins]

    async def incoming(self, incoming: Incoming) -> Incoming:
        """The arrival as the hooks leave it. Raises `BadInput` with the sentence of a hook that refuses it."""
        steps = await self._steps("incoming")
        if not steps:
            return incoming
        most = self._in_force.settings.limits.message_bytes
        # what is refused anyway is not shown to strangers
        check(incoming, most)
        now = Changed(text=incoming.text, metadata=incoming.metadata)
        loop = asyncio.get_running_loop()
        end = loop.time() + INCOMING_SECONDS
        for plugin, spec in steps:
            if not plugin.asks(spec):
                continue
            try:
                seconds = min(self._seconds(spec), end - loop.time())
                if seconds <= 0:
                    raise TimeoutError
                async with asyncio.timeout_at(end + 0.1):  # for its turn, too: its own time is kept by whoever asks
                    answer = await plugin.ask(spec, _message(incoming, now), seconds)
                if isinstance(sentence := answer.get("refused"), str):
                    raise BadInput(_sentence(sentence))
                now = changed(answer, now, most_bytes=most)
            except TimeoutError:
                await self._failed(plugin, spec, HookFailed(NO_TIME))
            except HookFailed as failed:
                await self._failed(plugin, spec, failed)
        return replace(incoming, text=now.text, metadata=now.metadata)

    async def outgoing(self, session: str, agent: str, found: Collected) -> Collected:
        """What a desk wrote, as the hooks leave it. The same rows may come again after a crash or a full disk."""
        rows = [row for row in found.messages if _is_text(row)]
        if not rows or not (steps := await self._steps("outgoing")):
            return found
        about = await self._store.hooked(session, [(row.id, row.run, row.in_reply_to) for row in rows])
        after: dict[str, Outbound] = {}
        for row in rows:
            # what is of a claim that is over is about to be discarded
            if (context := about.get(row.id)) is not None:
                after[row.id] = await self._answer(steps, agent, row, context)
        return replace(found, messages=tuple(after.get(row.id, row) for row in found.messages))

    async def _answer(self, steps: list[Step], agent: str, row: Outbound, context: dict[str, Any]) -> Outbound:
        now = Changed(text=str(row.content["text"]), metadata={})
        most = self._in_force.settings.limits.message_bytes
        facts = {**context, "agent": agent, "operation": row.content.get("operation") or "message", "run": row.run}
        for plugin, spec in steps:
            # not even for the rest of the page
            if not plugin.asks(spec):
                continue
            given = {**facts, "text": now.text, "metadata": dict(now.metadata)}
            try:
                now = changed(await plugin.ask(spec, given, self._seconds(spec)), now, most_bytes=most)
            except HookFailed as failed:
                about = {"trace": context["trace"], "message": context["message"], "run": row.run, "agent": agent}
                await self._failed(plugin, spec, failed, **about)
        return replace(row, content={**row.content, "text": now.text}, metadata=now.metadata)

    async def _steps(self, hook: str) -> list[Step]:
        """The functions that are asked, in their order."""
        await self._ready()
        steps = [
            (plugin, spec)
            for plugin in self._plugins
            for spec in plugin.specs
            if spec.hook == hook and plugin.asks(spec)
        ]
        return sorted(steps, key=lambda step: step[1].order)

    async def _failed(self, plugin: Plugin, spec: Spec, failed: HookFailed, **about: Any) -> None:
        left_out = isinstance(failed, LeftOut)
        await self._failures.note(plugin.name, f"{spec.hook} {spec.name}", str(failed), at_once=left_out, **about)

    def _seconds(self, spec: Spec) -> float:
        return spec.timeout or self._in_force.settings.hooks.timeout_seconds

    def _begin(self) -> None:
        self._loading = asyncio.create_task(self._load())

    async def _ready(self) -> None:
        if self._loading is None:
            self._begin()
        assert self._loading is not None
        if self._loading.done():
            self._loading.result()
        else:
            # whoever asks may be cancelled; the others still want it
            await asyncio.shield(self._loading)

    async def _load(self) -> None:
        settings = self._in_force.settings.hooks
        if settings.enabled:
            found = await asyncio.to_thread(find, self._home.plugins)
            self._plugins = [Plugin(one, self._home, disabled=one.name in settings.disabled) for one in found]
        await asyncio.gather(*(self._load_one(plugin) for plugin in self._plugins))
        if self._listening is not None:
            self._listening.follow([plugin for plugin in self._plugins if plugin.off is None and plugin.kinds()])

    async def _load_one(self, plugin: Plugin) -> None:
        try:
            await plugin.load()
        except HookFailed as failed:
            await self._failures.note(plugin.name, "load", str(failed))
        else:
            if plugin.off is None:
                log.info("The plugin %s is loaded", plugin.name, extra={"action": "plugin_loaded"})


def _is_text(row: Outbound) -> bool:
    text = row.content.get("text")
    return (
        row.kind == "chat" and row.content.get("operation") in HOOKED and isinstance(text, str) and bool(text.strip())
    )


def _message(incoming: Incoming, now: Changed) -> dict[str, Any]:
    return {
        "text": now.text,
        "metadata": dict(now.metadata),
        "source": incoming.source,
        "id": incoming.key,
        "channel": incoming.channel,
        "instance": incoming.instance,
        "platform_id": incoming.platform_id,
        "thread": incoming.thread,
        "sender": incoming.sender,
        "sender_id": incoming.sender_id,
        "to": incoming.to,
        "files": [file.name for file in incoming.files],
    }


def _sentence(said: str) -> str:
    """A stranger's words for the sender: one line, not endless."""
    return " ".join(said.encode(errors="replace").decode().split())[:500] or "The message was refused."
