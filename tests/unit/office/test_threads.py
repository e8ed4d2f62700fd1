"""Mailbox calls: a few at once, and one that hangs keeps nobody waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from manydesks.office.threads import AT_ONCE, THREADS, MailboxThreads


@pytest.fixture
async def threads() -> AsyncIterator[MailboxThreads]:
    made = MailboxThreads()
    yield made
    made.close()


async def test_calls_go_on_although_more_hang_than_are_let_in_at_once(threads: MailboxThreads) -> None:
    over = threading.Event()
    hanging = [asyncio.create_task(threads.run(over.wait)) for _ in range(THREADS - 1)]
    try:
        async with asyncio.timeout(30):
            assert [await threads.run(abs, -number) for number in range(50)] == list(range(50))
        assert not any(task.done() for task in hanging)
    finally:
        over.set()
    await asyncio.gather(*hanging)


async def test_quick_calls_are_let_in_a_few_at_once(threads: MailboxThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.office.threads.MOMENT_SECONDS", 60.0)  # none is slow, however busy the machine is
    lock, inside, most = threading.Lock(), 0, 0

    def call() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1

    await asyncio.gather(*(threads.run(call) for _ in range(500)))
    assert 1 <= most <= AT_ONCE


async def test_a_call_that_fails_or_is_given_up_leaves_its_place(threads: MailboxThreads) -> None:
    for _ in range(3 * AT_ONCE):
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 1, 0)
        over = threading.Event()
        given_up = asyncio.create_task(threads.run(over.wait))
        await asyncio.sleep(0)
        given_up.cancel()
        over.set()
    async with asyncio.timeout(30):
        assert await threads.run(abs, -1) == 1
