"""Check-ups for whoever asks: one at a time, for each starts programs and reads the whole store."""

from __future__ import annotations

import asyncio
import os
import threading

from manydesks.api.office import Office
from manydesks.office.checkup import checkup
from manydesks.office.finding import Finding

Findings = list[Finding]


class Checkups:
    """One for each application."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._under_way: asyncio.Future[Findings] | None = None

    async def now(self) -> Findings:
        """What one finds. Whoever comes while it is under way waits for the same; one who leaves stops nobody's."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.get_running_loop().create_future()
            # a thread that the office does not wait for when it closes: looking at every page of a large store is long
            threading.Thread(target=self._look, args=(self._under_way,), name="api-checkup", daemon=True).start()
        return await asyncio.shield(self._under_way)

    def _look(self, told: asyncio.Future[Findings]) -> None:
        """With a loop of its own: it asks the office by its socket, as a command does, and waits for the answer."""
        try:
            found = asyncio.run(self._all())
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            _tell(told, error)
        else:
            _tell(told, found)

    async def _all(self) -> Findings:
        office = self._office
        return [found async for found in checkup(office.home, office.premises.clock, os.environ)]


def _tell(told: asyncio.Future[Findings], found: Findings | Exception) -> None:
    def tell() -> None:
        if told.done():
            return
        if isinstance(found, Exception):
            told.set_exception(found)
        else:
            told.set_result(found)

    loop = told.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(tell)
