"""What routes work with: acts, looks at the store, and the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from manydesks.api.hub import Hub
from manydesks.api.readers import Readers
from manydesks.office.surface import Premises
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.reader import Reader

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Office:
    """One for each application."""

    premises: Premises
    readers: Readers
    hub: Hub
    #: whoever compares a file with what was read, and then writes it
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def home(self) -> Home:
        return self.premises.home

    @property
    def settings(self) -> Settings:
        """Those that count now."""
        return self.premises.in_force.settings

    async def act(self, verb: str, /, **args: Any) -> dict[str, Any]:
        """Have something done, as a command would."""
        return await self.premises.act(verb, args)

    async def read(self, look: Callable[[Reader], T]) -> T:
        """Look at the store, in a thread."""
        return await self.readers.read(look)

    async def work(self, blocking: Callable[[], T]) -> T:
        """Something else that blocks for a moment, in a thread."""
        return await self.readers.work(blocking)
