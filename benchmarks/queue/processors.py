"""A processor whose handler does nothing, beside the raw verbs at the same concurrency."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.measure import Contestant, Sample, Setting, Stopwatch, company, interleave
from benchmarks.queue import ours
from benchmarks.report import Line, Section, Target, line
from manydesks.queue import Message, Processor

QUEUE = "work-0"

#: (folder, jobs, slots) -> what it took
Play = Callable[[Path, int, int], Sample]


def processors(setting: Setting) -> Section:
    lines: list[Line] = []
    jobs = setting.of(4_000, least=200)
    with company() as heard:
        for kind, slots in (("threads", 4), ("threads", 64), ("tasks", 4), ("tasks", 64)):
            plays = (_threads_raw, _threads) if kind == "threads" else (_tasks_raw, _tasks)
            raw, processor = interleave(
                setting,
                [
                    _contestant(f"raw verbs, {slots} {kind}", plays[0], jobs, slots),
                    _contestant(f"Processor, {slots} {kind}", plays[1], jobs, slots),
                ],
            )
            lines += [line(processor, beside=raw, target=Target(times=0.5, cpu_times=2)), line(raw)]
    return Section(title="Receive, complete: a handler that does nothing, crash", lines=list(lines), company=heard)


def _contestant(name: str, play: Play, jobs: int, slots: int) -> Contestant:
    def filled(folder: Path) -> Sample:
        ours.fill(folder, jobs)
        return play(folder, jobs, slots)

    return Contestant(name=name, play=filled)


def _threads_raw(folder: Path, jobs: int, slots: int) -> Sample:
    with ours.open_sync(folder, QUEUE) as queue:

        def work() -> None:
            while (message := queue.receive()) is not None:
                queue.complete(message)

        threads = [threading.Thread(target=work) for _ in range(slots)]
        with Stopwatch() as watch:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return watch.sample(jobs)


def _threads(folder: Path, jobs: int, slots: int) -> Sample:
    with ours.open_sync(folder, QUEUE) as queue:
        left = threading.Semaphore(jobs - 1)

        def handle(message: Message) -> None:
            if not left.acquire(blocking=False):
                processor.stop()

        processor = Processor(queue, handle, concurrency=slots)
        with Stopwatch() as watch:
            processor.run()
        return _all_done(watch.sample(jobs), queue.stats())


def _tasks_raw(folder: Path, jobs: int, slots: int) -> Sample:
    async def run() -> Sample:
        async with ours.open_async(folder, name=QUEUE) as queue:

            async def work() -> None:
                while (message := await queue.receive()) is not None:
                    await queue.complete(message)

            with Stopwatch() as watch:
                await asyncio.gather(*(work() for _ in range(slots)))
            return watch.sample(jobs)

    return asyncio.run(run())


def _tasks(folder: Path, jobs: int, slots: int) -> Sample:
    async def run() -> Sample:
        async with ours.open_async(folder, name=QUEUE) as queue:
            left = jobs

            async def handle(message: Message) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    processor.stop()

            processor = Processor(queue, handle, concurrency=slots)
            with Stopwatch() as watch:
                running = processor.run()
                assert isinstance(running, Awaitable)
                await running
            return _all_done(watch.sample(jobs), await queue.stats())

    return asyncio.run(run())


def _all_done(sample: Sample, stats: dict[str, int]) -> Sample:
    if stats["completed"] != sample.operations:
        raise AssertionError(f"{stats['completed']} of {sample.operations} jobs were completed")
    return sample
