"""How soon a processor in another process has a message that was just sent."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import Setting, company
from benchmarks.queue import ours
from benchmarks.report import Fact, Section
from manydesks.queue import Message, Processor, Queue

PAUSE = 0.01
SENDS = 200
TARGET_MS = 2.0


def wakeup(setting: Setting) -> Section:
    sends = setting.of(SENDS, least=5)
    facts = []
    with company() as heard:
        for durability in ("crash", "power"):
            folder = setting.scratch / f"wake-up-{durability}"
            folder.mkdir()
            delays = sorted(_measure(folder / "jobs.db", durability, sends))
            middle = statistics.median(delays)
            facts.append(
                Fact(
                    what=f"from before the send, {durability}",
                    value=f"p50 {middle:.2f} ms, p90 {_part(delays, 0.9):.2f} ms, p99 {_part(delays, 0.99):.2f} ms",
                    target=f"p50 < {TARGET_MS:g} ms",
                    holds=middle < TARGET_MS,
                )
            )
    return Section(
        title=f"Wake-up of a Processor in another process: {sends} sends, {PAUSE * 1000:g} ms apart",
        lines=list(facts),
        company=heard,
        notes=["the commit is within the time; with power so is the disk's answer"],
    )


def _part(delays: list[float], part: float) -> float:
    return delays[min(len(delays) - 1, int(len(delays) * part))]


def _measure(path: Path, durability: str, sends: int) -> list[float]:
    """Milliseconds from before each send to its handler."""
    with Queue(path, durability=durability, lease=ours.LEASE) as queue:
        command = [sys.executable, "-m", "benchmarks.queue.wakeup", str(path), durability]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            try:
                delays = []
                # the first one finds a process that is still starting
                for number in range(sends + 1):
                    queue.send({"sent": time.monotonic_ns()})
                    heard = child.stdout.readline()
                    if not heard:
                        raise AssertionError("the other process has left")
                    if number:
                        delays.append(int(heard) / 1e6)
                    time.sleep(PAUSE)
                return delays
            finally:
                child.terminate()


def echo(path: str, durability: str) -> None:
    """The other process: tells how long each message was on its way. The monotonic clock is the machine's."""

    def handle(message: Message) -> None:
        print(time.monotonic_ns() - message.body["sent"], flush=True)

    with Queue(path, durability=durability, lease=ours.LEASE) as queue:
        Processor(queue, handle, concurrency=1).run()


if __name__ == "__main__":
    echo(*sys.argv[1:])
