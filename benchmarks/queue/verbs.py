"""The verbs: 64 callers at once beside the peers, a backlog, and batches."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.measure import Setting, company, interleave
from benchmarks.queue import ours, peers
from benchmarks.report import Section, Target, line
from manydesks.queue import Message, Queue

BATCH = 100
CLAIM = 50


def cycles(setting: Setting) -> Section:
    many, some = setting.of(12_800, least=64), setting.of(3_000, least=10)
    with company() as heard:
        crash, power, laned, lite, off, full = interleave(
            setting,
            [
                ours.crowd("ours, crash", ours.cycle, many),
                ours.crowd("ours, power", ours.cycle, many, durability="power"),
                ours.crowd("ours, crash, each with key and lane", ours.cycle_in_lanes, many),
                peers.litequeue_cycle(some),
                peers.huey_cycle(some, fsync=False),
                peers.huey_cycle(setting.of(300, least=5), fsync=True),
            ],
        )
    return Section(
        title=f"Send, receive, complete: {ours.CALLERS} coroutines (the peers: one caller, their best)",
        lines=[
            line(crash, beside=lite, target=Target(rate=15_000, micros=65, times=1.5)),
            line(power, beside=lite, target=Target(rate=10_000, micros=65)),
            line(laned, beside=lite),
            line(lite),
            line(off, beside=lite),
            line(full, beside=lite),
        ],
        company=heard,
        notes=["under each: what survives once the call has returned; how often a message may be handed out"],
    )


def sends(setting: Setting) -> Section:
    many, some = setting.of(25_600, least=64), setting.of(5_000, least=10)
    with company() as heard:
        crash, power, lite, off = interleave(
            setting,
            [
                ours.crowd("ours, crash", ours.send, many),
                ours.crowd("ours, power", ours.send, many, durability="power"),
                peers.litequeue_send(some),
                peers.huey_send(some, fsync=False),
            ],
        )
    return Section(
        title=f"Send: {ours.CALLERS} coroutines",
        lines=[
            line(crash, beside=lite, target=Target(rate=35_000)),
            line(power, beside=lite),
            line(lite),
            line(off, beside=lite),
        ],
        company=heard,
    )


def backlog(setting: Setting) -> Section:
    waiting = setting.of(100_000, least=2_000)
    with company() as heard:
        (taken,) = interleave(
            setting,
            [ours.crowd("ours, crash", ours.take, setting.of(12_800, least=64), queues=10, waiting=waiting)],
        )
    return Section(
        title=f"Receive, complete: {ours.CALLERS} coroutines, {waiting:,} messages in 10 queues",
        lines=[line(taken, target=Target(rate=15_000))],
        company=heard,
    )


def batches(setting: Setting) -> Section:
    times = setting.of(200, least=4)
    with company() as heard:
        sent, claimed, both = interleave(
            setting,
            [
                ours.alone(f"send_batch({BATCH})", lambda queue: _sending(queue, times)),
                ours.alone(f"receive_batch({CLAIM})", lambda queue: _claiming(queue, times, complete=False)),
                ours.alone(
                    f"receive_batch({CLAIM}), complete_batch", lambda queue: _claiming(queue, times, complete=True)
                ),
            ],
        )
    return Section(
        title="Batches: one thread, crash; figures of one message",
        lines=[
            line(sent, target=Target(rate=120_000, micros=8, either=True)),
            line(claimed, target=Target(rate=60_000)),
            line(both),
        ],
        company=heard,
    )


def _sending(queue: Queue, times: int) -> Callable[[], int]:
    bodies = [ours.BODY] * BATCH
    queue.send_batch(bodies)

    def act() -> int:
        for _ in range(times):
            queue.send_batch(bodies)
        return times * BATCH

    return act


def _claiming(queue: Queue, times: int, *, complete: bool) -> Callable[[], int]:
    # ten more claims than are measured: those warm up
    for _ in range((times + 10) * CLAIM // BATCH + 1):
        queue.send_batch([ours.BODY] * BATCH)
    for _ in range(10):
        queue.complete_batch(queue.receive_batch(CLAIM))
    # somebody has to keep them, as a worker would
    kept: list[list[Message]] = []

    def act() -> int:
        for _ in range(times):
            kept.append(queue.receive_batch(CLAIM))
            if complete:
                queue.complete_batch(kept.pop())
        return times * CLAIM

    return act
