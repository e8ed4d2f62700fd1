"""Steps that need nothing of each other, two at a time: while one waits for the disk or for Spark to plan, the other
works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 2


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """What they return, in the order of the tasks. If one fails, those that have not begun are left out, and its
    exception is raised once the others have ended."""
    with ThreadPoolExecutor(AT_ONCE, "pipeline-step") as pool:
        running = [pool.submit(task) for task in tasks]
        try:
            return [one.result() for one in running]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
