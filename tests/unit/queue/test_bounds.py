"""More than one transaction looks after, and what is too odd to be carried."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.queue import AsyncQueue, Message, Processor, Queue
from manydesks.queue.checks import DEEPEST
from manydesks.testing.clock import ManualClock

MANY = 1_300


def test_whoever_looks_sees_every_lease_that_is_over(path: Path, clock: ManualClock) -> None:
    with Queue(path, "q", max_attempts=1, clock=clock) as q:
        q.send_batch(range(MANY))
        assert all(q.receive() for _ in range(MANY))
        clock.advance(30_000)
        assert q.stats()["dead"] == MANY
        assert len(q.dead_letters(limit=5_000)) == MANY


def test_whoever_looks_sees_every_delay_that_is_over(path: Path, clock: ManualClock) -> None:
    with Queue(path, "q", clock=clock) as q:
        q.send_batch(range(MANY), delay=5)
        clock.advance(5_000)
        assert {job.status for job in q.list(limit=5_000)} == {"ready"}
        assert q.stats()["ready"] == MANY


def test_in_ones_own_transaction_too(path: Path, clock: ManualClock) -> None:
    with Queue(path, "q", clock=clock) as q:
        q.send_batch(range(MANY), delay=5)
        clock.advance(5_000)
        with q.transaction() as tx:
            assert q.stats(tx=tx)["ready"] == MANY


def nested(depth: int) -> Any:
    body: Any = 1
    for _ in range(depth):
        body = [body]
    return body


def test_a_body_may_be_nested_so_deep_and_no_deeper(q: Queue) -> None:
    q.send(nested(DEEPEST))
    with pytest.raises(BadInput, match="200 deep"):
        q.send(nested(DEEPEST + 1))
    with pytest.raises(BadInput, match="200 deep"):
        q.send({"a": [nested(DEEPEST)]})
    q.send([[1]] * 210)
    q.send("[" * 500)
    assert [job.body for job in q.list()] == [nested(DEEPEST), [[1]] * 210, "[" * 500]


def test_a_fence_of_another_message_is_refused_both_ways(q: Queue) -> None:
    q.send_batch([1, 2])
    first, second = q.receive(), q.receive()
    assert first is not None
    assert second is not None
    for one, other in ((first, second), (second, first)):
        with pytest.raises(BadInput, match="is not of the job"):
            q.complete(one._replace(fence=other.fence))
    assert q.complete(first)
    assert q.complete(second)


async def test_a_receive_that_is_cancelled_leaves_nothing_claimed(path: Path) -> None:
    q = AsyncQueue(path, "q")
    await q.send_batch(range(50))
    for delay in range(50):
        receiving = asyncio.create_task(q.receive())
        for _ in range(delay % 5):
            await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        batch = asyncio.create_task(q.receive_batch(3))
        await asyncio.sleep(delay % 3 / 1000)
        if not batch.done():
            batch.cancel()
            await asyncio.gather(batch, return_exceptions=True)
        else:
            for message in batch.result():
                await q.release(message)
    # what was given back comes through the same writer, so it is done before this is asked
    assert (await q.stats())["claimed"] == 0
    assert {job.attempts for job in await q.list()} == {0}
    q.close()


async def _coroutine(message: Message) -> None:
    raise AssertionError("never awaited")


class _Callable:
    async def __call__(self, message: Message) -> None:
        raise AssertionError("never awaited")


@pytest.mark.parametrize("handler", [_coroutine, _Callable(), None, "print"])
def test_a_handler_that_does_not_fit_is_refused(q: Queue, handler: Any) -> None:
    q.send(1)
    with pytest.raises(BadInput, match="handler"):
        Processor(q, handler)
    assert q.stats()["ready"] == 1


def test_a_function_that_returns_a_coroutine_has_not_done_its_work(q: Queue) -> None:
    q.send(1)
    processor = Processor(q, lambda message: (processor.stop(), _coroutine(message))[1], concurrency=1)
    processor.run()
    (dead,) = q.dead_letters()
    assert dead.reason is not None
    assert "returned a coroutine" in dead.reason


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_an_error_without_words_fails_its_job_and_nothing_else(path: Path, kind: str) -> None:
    seen: list[int] = []

    def handle(message: Message) -> None:
        seen.append(message.body)
        if len(seen) == 2:
            processor.stop()
        if message.body == 1:
            raise _Mute

    q: Queue | AsyncQueue = Queue(path, "q") if kind == "threads" else AsyncQueue(path, "q")
    processor = Processor(q, handle, concurrency=1, signals=False)
    if isinstance(q, AsyncQueue):
        await q.send_batch([1, 2])
        run = processor.run()
        assert run is not None
        await run
        counts, jobs = await q.stats(), await q.list()
    else:
        q.send_batch([1, 2])
        await asyncio.to_thread(processor.run)
        counts, jobs = q.stats(), q.list()
    assert (counts["completed"], counts["delayed"]) == (1, 1)
    assert jobs[0].reason == "_Mute: (its words are lost: ValueError)"
    q.close()


def test_a_file_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first = Queue(path, "q")
    first.send("gone")
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    second = Queue(path, "q")
    second.send("here")
    assert path.exists()
    assert [job.body for job in second.list()] == ["here"]
    first.close()
    assert [job.body for job in second.list()] == ["here"]
    second.close()


@pytest.mark.parametrize("path", [b"jobs.db", "a\udc80.db", 7, None])
def test_odd_paths_get_a_sentence(path: Any) -> None:
    with pytest.raises(BadInput, match="path of a jobs file"):
        Queue(path)


def test_a_batch_that_is_none_gets_a_sentence(q: Queue) -> None:
    with pytest.raises(BadInput, match="batch"):
        q.complete_batch(None)  # type: ignore[arg-type]
