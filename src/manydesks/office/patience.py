"""What must be stored is tried until it is: a full disk costs time, never an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from manydesks.domain.errors import StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN_SECONDS = 1.0


async def until_stored(act: Callable[[], Awaitable[T]], *, give_up: Callable[[], bool] = lambda: False) -> T:
    """The result of a verb of the store, tried again after every StoreError until `give_up` says so."""
    while True:
        try:
            return await act()
        except StoreError as error:
            if give_up():
                raise
            log.error("%s Trying again in %g s.", error, AGAIN_SECONDS, extra={"action": "store_failed"})
            await asyncio.sleep(AGAIN_SECONDS)
