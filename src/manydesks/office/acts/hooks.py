"""Hooks: the owner's plugins, as the open office sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.office.acts.base import Act, Means


class HookActs:
    def __init__(self, means: Means) -> None:
        self._hooks = means.hooks

    def acts(self) -> Mapping[str, Act]:
        return {"hooks": self.hooks}

    async def hooks(self) -> dict[str, Any]:
        return {"plugins": await self._hooks.listed() if self._hooks is not None else []}
