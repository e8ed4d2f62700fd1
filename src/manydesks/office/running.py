"""The office's loop, from the first step to an end that nobody can put off.

`asyncio.run` waits at its end for every task and thread that was ever begun there, also for those of a channel that
does not hear that it is over; and it ends when any task raises `SystemExit`. An office does neither.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

log = logging.getLogger(__name__)

#: when the office is closed, what is still under way gets this long to hear of it: tasks, and then threads
GRACE_SECONDS = 1.0
THREAD_SECONDS = 5.0
#: so many of those that are left are named
NAMED = 5


def run_to_its_end(main: Coroutine[Any, Any, None]) -> list[str]:
    """Run it in a loop of its own. What would not end with it, by name: as long as it goes on, so would this process.

    Raises what `main` raises; what a task beside it raises is logged, and nothing else comes of it.
    """
    loop = asyncio.new_event_loop()
    # our own, as the loop's has no end that is bounded
    threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
    loop.set_default_executor(threads)
    left: list[str] = []
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(main)
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if not task.done():
                    # of a task that a channel began: the loop has stopped for it, and goes on where it was
                    log.error("A task wanted to end the office", exc_info=error, extra={"action": "exit_refused"})
        task.result()
    finally:
        try:
            left += _end_tasks(loop)
        finally:
            asyncio.set_event_loop(None)
            threads.shutdown(wait=False, cancel_futures=True)
            if not left:
                loop.close()
            left += _end_threads()
    return left


def leave(code: int, left: list[str]) -> NoReturn:
    """End the process with what still goes on in it; nothing of the office is left to be done."""
    names = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if len(left) > NAMED else "")
    log.warning("The office is closed without waiting for %s", names, extra={"action": "left_behind"})
    logging.shutdown()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(code)


def _end_tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _run(loop, asyncio.wait(tasks, timeout=GRACE_SECONDS))
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            log.error("A task failed at the end", exc_info=error, extra={"action": "task_failed"})
    left = [task.get_name() for task in tasks if not task.done()]
    if not left:
        _run(loop, asyncio.wait_for(loop.shutdown_asyncgens(), GRACE_SECONDS))
    return left


def _run(loop: asyncio.AbstractEventLoop, last: Coroutine[Any, Any, Any]) -> None:
    """The last steps: they are bounded, and what they meet is said."""
    try:
        loop.run_until_complete(last)
    except (Exception, SystemExit) as error:  # strangers' code, once more
        log.error("The office did not end well", exc_info=error, extra={"action": "end_failed"})


def _end_threads() -> list[str]:
    """The interpreter would wait for all of them: those of `asyncio.to_thread` end by themselves once they are idle."""
    deadline = time.monotonic() + THREAD_SECONDS
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    working = [thread for thread in others if not thread.daemon]
    for thread in working:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread.name for thread in working if thread.is_alive()]
