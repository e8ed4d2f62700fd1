"""Calls of a stranger's code in the office's own loop: a channel's. They have their time, and fail only themselves.

Code that swallows its cancellation cannot be ended: it is left behind, and what it gives back later is not looked at.
Code that never waits holds the loop, and nothing can be done about that here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from manydesks.domain.cleaning import sentence

log = logging.getLogger(__name__)

T = TypeVar("T")

#: after its time is over, or nobody wants it any more, a call gets this long to hear of it
GRACE_SECONDS = 1.0


class TooLate(TimeoutError):
    """Its time was over. The sentence says how much it had."""


class StrangerFailed(Exception):
    """Inner to the office: a stranger's code raised what would end more than itself. The words are of that."""


async def within(seconds: float, call: Callable[[], Coroutine[Any, Any, T]], late: str, *, name: str) -> T:
    """What the call returns, or raises; `TooLate` with the words `late` when its time is over. `name`: for people.

    `StrangerFailed` stands for `SystemExit` and the like, and for a cancellation that nobody asked for.
    """
    task = asyncio.create_task(_contained(call), name=name)
    # a task that is left behind tells nobody; without this the loop would complain of it in our name
    task.add_done_callback(_heard)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if not task.done() or task.cancelled():
        raise TooLate(late)
    return task.result()


def said(error: BaseException) -> str:
    """The words of what a stranger's code raised: one line that can be stored."""
    try:
        return sentence(str(error))
    except Exception as worse:  # noqa: BLE001  # its `__str__` is a stranger's code, too
        return f"it cannot say why ({sentence(type(worse).__name__)})"


def words_of(error: BaseException) -> str:
    """As `said`, of something that was not meant to be read: with what it is."""
    if isinstance(error, StrangerFailed):
        return str(error)
    kind = "TimeoutError" if isinstance(error, TooLate) else type(error).__name__
    return sentence(f"{kind}: {said(error)}")


async def _contained(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return await call()
    except Exception:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        # out of a task, SystemExit and KeyboardInterrupt end the loop, and with it the office
        raise StrangerFailed(words_of(error)) from error


def _heard(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
