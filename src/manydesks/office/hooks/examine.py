"""A look at plugins as they would be loaded now, without an office: for `doctor` and `hook list`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from manydesks.office.hooks.found import find
from manydesks.office.hooks.line import HookFailed
from manydesks.office.hooks.plugin import Plugin
from manydesks.settings.home import Home
from manydesks.settings.model import HooksSettings


async def examine(
    home: Home, settings: HooksSettings, failures: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Every plugin, loaded and let go again; `failures`: the last of each, as the ledger has it."""
    found = await asyncio.to_thread(find, home.plugins)
    plugins = [Plugin(one, home, disabled=not settings.enabled or one.name in settings.disabled) for one in found]

    async def look(plugin: Plugin) -> None:
        try:
            with contextlib.suppress(HookFailed):  # it says so itself
                await plugin.load()
        finally:
            await plugin.close()

    await asyncio.gather(*(look(plugin) for plugin in plugins))
    return [plugin.as_json((failures.get(plugin.name) or {}).get("reason")) for plugin in plugins]
