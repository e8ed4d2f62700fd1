"""The peers, each at its best: one caller, their own calls, text that needs no JSON any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from huey.storage import SqliteStorage
from litequeue import LiteQueue

from benchmarks.measure import Contestant, Sample, Stopwatch

TEXT = '{"to":"somebody@example.org","template":"welcome","number":12345}'
WARM_UP = 50

# read in litequeue 0.9 and huey 3.5
LITEQUEUE = (
    "a kill, not a power cut (WAL, synchronous NORMAL); no lease: what a dead worker had popped stays locked for good"
)
HUEY_OFF = "a kill, not a power cut, which may also corrupt it (WAL, synchronous OFF); at most once: dequeue deletes"
HUEY_FULL = "a power cut (WAL, synchronous FULL); at most once: dequeue deletes, a dead worker's task is gone"


def litequeue_cycle(operations: int) -> Contestant:
    def cycle(queue: Any) -> None:
        queue.put(TEXT)
        queue.done(queue.pop().message_id)

    return _contestant("litequeue: put, pop, done", LITEQUEUE, _litequeue, cycle, operations)


def litequeue_send(operations: int) -> Contestant:
    return _contestant("litequeue: put", LITEQUEUE, _litequeue, lambda queue: queue.put(TEXT), operations)


def huey_cycle(operations: int, *, fsync: bool) -> Contestant:
    def cycle(storage: Any) -> None:
        storage.enqueue(TEXT.encode())
        storage.dequeue()

    name = f"huey storage, fsync={fsync}: enqueue, dequeue"
    return _contestant(name, _huey_promise(fsync), partial(_huey, fsync=fsync), cycle, operations)


def huey_send(operations: int, *, fsync: bool) -> Contestant:
    def send(storage: Any) -> None:
        storage.enqueue(TEXT.encode())

    name = f"huey storage, fsync={fsync}: enqueue"
    return _contestant(name, _huey_promise(fsync), partial(_huey, fsync=fsync), send, operations)


def _contestant(
    name: str, promise: str, make: Callable[[Path], Any], act: Callable[[Any], object], operations: int
) -> Contestant:
    def play(folder: Path) -> Sample:
        peer = make(folder)
        for _ in range(WARM_UP):
            act(peer)
        with Stopwatch() as watch:
            for _ in range(operations):
                act(peer)
        peer.close()
        return watch.sample(operations)

    return Contestant(name=name, promise=promise, play=play)


def _litequeue(folder: Path) -> Any:
    return LiteQueue(folder / "queue.db")


def _huey(folder: Path, *, fsync: bool) -> Any:
    return SqliteStorage(filename=str(folder / "queue.db"), fsync=fsync)


def _huey_promise(fsync: bool) -> str:
    return HUEY_FULL if fsync else HUEY_OFF
