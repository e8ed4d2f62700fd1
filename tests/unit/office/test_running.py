"""The office's loop: it ends when the office does, whatever else goes on in it, and for no other reason."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time

import pytest

from manydesks.office import running
from manydesks.office.running import run_to_its_end


async def hears_nothing(over: threading.Event) -> None:
    while not over.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


def test_when_it_is_over_nothing_is_left() -> None:
    seen: list[str] = []

    async def beside() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("told")

    async def main() -> None:
        task = asyncio.create_task(beside())
        await asyncio.sleep(0)
        await asyncio.to_thread(seen.append, "main")
        assert not task.done()

    threads = set(threading.enumerate())
    assert run_to_its_end(main()) == []
    assert seen == ["main", "told"]
    assert set(threading.enumerate()) == threads


def test_a_task_that_hears_nothing_is_named_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(running, "THREAD_SECONDS", 0.1)
    loops: list[asyncio.AbstractEventLoop] = []
    tasks: list[asyncio.Task[None]] = []
    over = threading.Event()

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        tasks.append(asyncio.create_task(hears_nothing(over), name="a sending on post"))
        await asyncio.sleep(0)

    assert run_to_its_end(main()) == ["a sending on post"]
    over.set()
    loops[0].run_until_complete(tasks[0])
    loops[0].close()


def test_so_is_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "THREAD_SECONDS", 0.1)
    over, begun = threading.Event(), threading.Event()

    async def main() -> None:
        thread = threading.Thread(target=lambda: (begun.set(), over.wait()), name="of a channel")
        thread.start()

    try:
        assert run_to_its_end(main()) == ["of a channel"]
    finally:
        over.set()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["task", "callback"])
def test_what_a_task_beside_it_raises_does_not_end_it(
    error: BaseException, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []

    def raises() -> None:
        raise error

    async def beside() -> None:
        raises()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(3):
            task = asyncio.create_task(beside()) if where == "task" else loop.call_soon(raises)
            await asyncio.sleep(0)
            await asyncio.to_thread(done.append, number)
            del task

    assert run_to_its_end(main()) == []
    assert done == [0, 1, 2]
    assert caplog.messages.count("A task wanted to end the office") == 3


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("bad")])
def test_what_it_raises_itself_is_raised(error: BaseException) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(type(error)):
        run_to_its_end(main())


LEAVES = """
import asyncio, contextlib, sys, threading, time
from manydesks.office.running import leave, run_to_its_end

async def deaf():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

async def main():
    kept.add(asyncio.create_task(deaf(), name="deaf"))
    kept.add(asyncio.create_task(asyncio.to_thread(time.sleep, 600)))
    await asyncio.sleep(0.1)
    print("closed")

kept = set()
left = run_to_its_end(main())
leave(4, left)
"""


def test_the_process_ends_with_what_goes_on_in_it() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (4, "closed\n")
    assert "closed without waiting for deaf, asyncio_0" in done.stderr
    assert time.monotonic() - began < 40
