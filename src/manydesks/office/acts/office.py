"""The office as a whole: whether anything begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.office.acts.base import Act, Means


class OfficeActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store

    def acts(self) -> Mapping[str, Act]:
        return {"pause_office": self.pause_office, "resume_office": self.resume_office, "audit": self.audit}

    async def audit(self) -> dict[str, Any]:
        """A surface has changed a file of the office: if nothing else says so in the ledger, this does."""
        await self._store.audit()
        return {}

    async def pause_office(self) -> dict[str, Any]:
        return {"office": True, "paused": True, "changed": await self._store.pause_office()}

    async def resume_office(self) -> dict[str, Any]:
        return {"office": True, "paused": False, "changed": await self._store.resume_office()}
