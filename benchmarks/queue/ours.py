"""Our own contestants: many coroutines, or one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Contestant, Sample, Stopwatch
from manydesks.queue import AsyncQueue, Message, Queue

BODY = {"to": "somebody@example.org", "template": "welcome", "number": 12345}
CALLERS = 64
#: operations of each caller before the clock starts
WARM_UP = 5
#: no lease ends in a run
LEASE = 600

PROMISE = {
    "crash": "a kill, not a power cut (WAL, synchronous NORMAL); at least once, under a lease with a fence",
    "power": "a power cut (WAL, synchronous FULL); at least once, under a lease with a fence",
}

#: what a caller does, with its number and the number of the operation
Verb = Callable[[AsyncQueue, int, int], Awaitable[None]]


def open_async(folder: Path, durability: str = "crash", name: str = "work") -> AsyncQueue:
    return AsyncQueue(folder / "jobs.db", name, durability=durability, lease=LEASE)


def open_sync(folder: Path, name: str = "work") -> Queue:
    return Queue(folder / "jobs.db", name, durability="crash", lease=LEASE)


async def cycle(queue: AsyncQueue, caller: int, number: int) -> None:
    await queue.send(BODY)
    await queue.complete(there(await queue.receive()))


async def cycle_in_lanes(queue: AsyncQueue, caller: int, number: int) -> None:
    """Every message with a key to be recognised by and a lane to keep: both indexes are written."""
    mark = f"{caller}-{number}"
    await queue.send(BODY, key=mark, lane=mark)
    await queue.complete(there(await queue.receive()))


async def send(queue: AsyncQueue, caller: int, number: int) -> None:
    await queue.send(BODY)


async def take(queue: AsyncQueue, caller: int, number: int) -> None:
    await queue.complete(there(await queue.receive()))


def there(message: Message | None) -> Message:
    """A benchmark that finds nothing to receive would measure nothing."""
    if message is None:
        raise AssertionError("nothing was due")
    return message


def crowd(
    name: str,
    verb: Verb,
    operations: int,
    *,
    durability: str = "crash",
    queues: int = 1,
    waiting: int = 0,
    callers: int = CALLERS,
) -> Contestant:
    """Coroutines that do the same thing at once, over some queues of one file with `waiting` messages in all."""

    def play(folder: Path) -> Sample:
        fill(folder, waiting, queues)
        return asyncio.run(run_crowd(folder, verb, operations, durability=durability, queues=queues, callers=callers))

    return Contestant(name=name, promise=PROMISE[durability], play=play)


async def run_crowd(
    folder: Path, verb: Verb, operations: int, *, durability: str = "crash", queues: int = 1, callers: int = CALLERS
) -> Sample:
    each = max(1, operations // callers)
    with ExitStack() as opened:
        doors = [open_async(folder, durability, f"work-{number}") for number in range(queues)]
        for door in doors:
            opened.callback(door.close)

        async def call(caller: int, start: int, times: int) -> None:
            door = doors[caller % queues]
            for number in range(start, start + times):
                await verb(door, caller, number)

        await asyncio.gather(*(call(caller, 0, WARM_UP) for caller in range(callers)))
        with Stopwatch() as watch:
            await asyncio.gather(*(call(caller, WARM_UP, each) for caller in range(callers)))
        return watch.sample(each * callers)


def fill(folder: Path, waiting: int, queues: int = 1) -> None:
    """Messages that wait, shared out evenly."""
    for number in range(queues if waiting else 0):
        with open_sync(folder, f"work-{number}") as queue:
            left = waiting // queues
            while left > 0:
                queue.send_batch([BODY] * min(left, 5000))
                left -= 5000


def alone(name: str, prepare: Callable[[Queue], Callable[[], int]]) -> Contestant:
    """One thread. `prepare` readies the queue and returns what is measured, which says how much it did."""

    def play(folder: Path) -> Sample:
        with open_sync(folder) as queue:
            act = prepare(queue)
            with Stopwatch() as watch:
                done = act()
            return watch.sample(done)

    return Contestant(name=name, promise=PROMISE["crash"], play=play)
