"""kill -9 of the host while many follow its events and many post: every post that was accepted is there once, and every
follower has every event once, in order."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest

from manydesks.client import AsyncClient
from manydesks.domain.errors import OfficeError
from manydesks.testing.api import ServedOffice

READERS = 50
POSTERS = 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Crowd:
    """Everybody who talks to the office, over its restarts."""

    def __init__(self, office: ServedOffice, seed: int) -> None:
        self._url, self._token = office.url(), office.token()
        self._rng = random.Random(seed)
        self.accepted: list[str] = []
        self.seen: list[list[int]] = [[] for _ in range(READERS)]
        self._posting = True
        self._last: int | None = None
        self._done = asyncio.Event()

    async def post(self) -> None:
        async with AsyncClient(self._url, token=self._token) as office:
            while self._posting:
                # ids of our own: asked again after a kill, nothing is stored twice
                sent = await office.send("!say hello", tries=100)
                self.accepted.append(sent.message_id)
                await asyncio.sleep(self._rng.uniform(0.0, 0.03))

    async def follow(self, number: int) -> None:
        async with AsyncClient(self._url, token=self._token) as office:
            async for event in office.follow(after=0, wait=True):
                assert event.seq is not None
                self.seen[number].append(event.seq)
                if self._last is not None and event.seq >= self._last:
                    return

    async def stop_posting(self) -> None:
        self._posting = False

    async def until(self, last: int) -> None:
        self._last = last


async def day(office: ServedOffice, *, kills: int, seed: int) -> Crowd:
    crowd = Crowd(office, seed)
    posters = [asyncio.create_task(crowd.post()) for _ in range(POSTERS)]
    followers = [asyncio.create_task(crowd.follow(number)) for number in range(READERS)]
    rng = random.Random(seed)
    for _ in range(kills):
        before = len(crowd.accepted)
        more = before + rng.randrange(20, 80)
        while len(crowd.accepted) < more:
            assert not any(task.done() for task in (*posters, *followers))
            await asyncio.sleep(0.005)
        await asyncio.to_thread(office.kill)
        await asyncio.to_thread(office.start)
    await crowd.stop_posting()
    await asyncio.gather(*posters)
    # one more event, so that whoever has all of them is told of another
    await asyncio.to_thread(office.until, lambda reader: reader.queue_status()["pending"] == 0 or None, 120)
    async with AsyncClient(office.url(), token=office.token()) as mine:
        last = int((await mine.status())["store"]["head"])
        await crowd.until(last)
        await mine.send("!say the end")
        async with asyncio.timeout(120):
            await asyncio.gather(*followers)
    return crowd


@pytest.mark.parametrize(
    ("kills", "seed"), [(3, 1), *(pytest.param(20, seed, marks=pytest.mark.deep) for seed in range(2, 6))]
)
async def test_nothing_is_lost_or_repeated(home: Path, kills: int, seed: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    office = ServedOffice(home, port=port, retry__base_seconds=0.02)
    await asyncio.to_thread(office.start)
    try:
        crowd = await day(office, kills=kills, seed=seed)
        reader = office.door.reader()
        try:
            for id in crowd.accepted:
                found = reader.message(id)
                assert found is not None, id
        finally:
            reader.close()
        assert len(set(crowd.accepted)) == len(crowd.accepted) > 20 * kills
        for seen in crowd.seen:
            assert seen == list(range(1, len(seen) + 1))
        assert "Traceback" not in office.log()
    finally:
        await asyncio.to_thread(office.kill)


async def test_a_client_says_so_when_nobody_answers(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with AsyncClient(f"http://127.0.0.1:{port}", token="x" * 43) as office:
        with pytest.raises(OfficeError, match="does not answer"):
            await office.send("hello", tries=2)
