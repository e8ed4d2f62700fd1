"""The store itself: what is old may go, what is archived is marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.office.acts.base import Act, Means
from manydesks.office.keeper import prune
from manydesks.office.pipeline.reach import lake_reach

#: steps of retention for one request: each is a few milliseconds, and whoever asks waits 10 s at most
PRUNE_STEPS = 40


class UpkeepActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._in_force = means.in_force
        self._home = means.home

    def acts(self) -> Mapping[str, Act]:
        return {"prune": self.prune, "mark_archived": self.mark_archived, "backup_made": self.backup_made}

    async def prune(self) -> dict[str, Any]:
        """What retention would do by and by, as much as an answer may take; `more`: ask again."""
        settings = self._in_force.settings
        reach = partial(lake_reach, settings.pipeline, self._home)
        done = await prune(self._store, settings.retention, lake=reach, steps=PRUNE_STEPS)
        return asdict(done)

    async def mark_archived(self, *, seq: int) -> dict[str, Any]:
        if type(seq) is not int or not 0 <= seq < 2**63:
            raise BadInput("An archived mark is a whole number from 0 that fits into 64 bits.")
        return {"seq": await self._store.mark_archived(seq)}

    async def backup_made(self, *, seq: int, bytes: int, secrets: bool, lake: bool, left_out: int) -> dict[str, Any]:
        """A command has made one: the ledger shall say so."""
        if not all(type(number) is int and 0 <= number < 2**63 for number in (seq, bytes, left_out)):
            raise BadInput("A backup has whole numbers of events, bytes and files.")
        if any(type(given) is not bool for given in (secrets, lake)):
            raise BadInput("A backup has the keys and the lake, or has them not.")
        await self._store.note("backup_made", seq=seq, bytes=bytes, secrets=secrets, lake=lake, left_out=left_out)
        return {"seq": seq}
