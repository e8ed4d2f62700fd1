"""The power goes at any write: `power` loses nothing that was acknowledged, `crash` the newest; neither breaks."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import StoreError
from manydesks.queue import AsyncQueue, Message, Queue
from manydesks.store.database import open_reader
from manydesks.store.store import Store
from manydesks.testing.jobs import trouble
from manydesks.testing.power import Disk

#: the log is moved into the file that often (in pages), so that cuts meet that too
CHECKPOINT = 24


@dataclass
class Told:
    """What callers know: a verb came back."""

    sent: dict[int, object] = field(default_factory=dict)
    completed: list[int] = field(default_factory=list)


@dataclass
class Cut:
    """What was on the disk when the power went, and what had been said by then."""

    folder: Path
    told: Told

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs.db"


class Cutter:
    """Cuts the power at seeded moments: before some write, truncation, sync or deletion."""

    def __init__(self, folder: Path, seed: int, cuts: int) -> None:
        self.told = Told()
        self.disk = Disk(seed, watch=self._watch)
        self.made: list[Cut] = []
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._rng = random.Random(seed)
        self._wanted = cuts
        # the first ones while the file is made
        self._next = self._rng.randrange(1, 60)

    @property
    def is_done(self) -> bool:
        return len(self.made) == self._wanted

    def _watch(self, act: str, path: str) -> None:
        self._next -= 1
        if self._next or self.is_done:
            return
        self._next = self._rng.randrange(1, 150)
        # first what was said: what is said meanwhile need not be there
        told = Told(dict(self.told.sent), list(self.told.completed))
        cut = Cut(self._folder / f"cut-{len(self.made)}", told)
        self.disk.cut(cut.folder)
        self.made.append(cut)


def tune(queue: Queue | AsyncQueue, synchronous: str | None) -> None:
    db = queue.file.writer._db
    db.wal_autocheckpoint(CHECKPOINT)
    if synchronous is not None:
        db.execute(f"pragma synchronous = {synchronous}")


def work(folder: Path, durability: str, *, seed: int, cuts: int, synchronous: str | None = None) -> list[Cut]:
    """One caller sends and completes, closes and opens again, until the power has gone often enough."""
    rng = random.Random(seed)
    cutter = Cutter(folder, seed, cuts)
    told = cutter.told
    with cutter.disk:
        while not cutter.is_done:
            with closing(Queue(folder / "jobs.db", "q", durability=durability)) as queue:
                tune(queue, synchronous)
                for _ in range(rng.randrange(20, 200)):
                    if cutter.is_done:
                        break
                    play(queue, rng, told)
    return cutter.made


def play(queue: Queue, rng: random.Random, told: Told) -> None:
    body = {"n": rng.random(), "text": "x" * rng.choice((1, 10, 100, 5000))}
    lane = rng.choice((None, "a", "b"))
    act = rng.random()
    if act < 0.4:
        told.sent[queue.send(body, lane=lane)] = body
    elif act < 0.5:
        for id in queue.send_batch([body] * 5, lane=lane):
            told.sent[id] = body
    elif act < 0.6:
        for message in queue.receive_batch(3):
            queue.fail(message, "no") if rng.random() < 0.5 else queue.release(message)
    elif (message := queue.receive()) is not None and queue.complete(message):
        told.completed.append(message.id)


async def work_together(folder: Path, durability: str, *, seed: int, cuts: int) -> list[Cut]:
    """Sixteen callers at once: their operations share commits."""
    cutter = Cutter(folder, seed, cuts)
    told = cutter.told

    async def one(queue: AsyncQueue, seed: int) -> None:
        rng = random.Random(seed)
        while not cutter.is_done:
            body = rng.random()
            told.sent[await queue.send(body, lane=rng.choice((None, None, "a")))] = body
            message: Message | None = await queue.receive()
            if message is not None and await queue.complete(message):
                told.completed.append(message.id)

    with cutter.disk:
        async with AsyncQueue(folder / "jobs.db", "q", durability=durability) as queue:
            tune(queue, None)
            await asyncio.gather(*(one(queue, seed * 100 + n) for n in range(16)))
    return cutter.made


def lost(cut: Cut) -> list[str]:
    """What somebody was told and the file does not know, after everything that has to hold in any case."""
    with closing(Queue(cut.jobs, "q")):
        pass  # a file that was half made is finished by whoever opens it next
    assert trouble(cut.jobs) == [], cut.folder
    db = open_reader(cut.jobs)
    states = dict(db.execute("select id, state from jobs").fetchall())
    db.close()
    gone = [id for id in cut.told.sent if id not in states]
    # ids are given in the order of commits: what is gone is the newest
    assert not gone or min(gone) > max(states, default=0), cut.folder
    undone = [id for id in cut.told.completed if states.get(id, 3) != 3]
    with closing(Queue(cut.jobs, "q")) as queue:
        for id, body in cut.told.sent.items():
            if id in states:
                assert queue.show(id).body == body
        fresh = queue.send("after", priority=1)
        message = queue.receive()
        assert message is not None
        assert message.id == fresh
        assert queue.complete(message)
    return [f"job {id} was sent" for id in gone] + [f"job {id} was completed" for id in undone]


def check_power(cuts: list[Cut]) -> None:
    assert sum(len(cut.told.completed) for cut in cuts) > len(cuts), "too little was done to lose any of it"
    for cut in cuts:
        assert lost(cut) == [], cut.folder


def test_power_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    check_power(work(tmp_path, "power", seed=1, cuts=60))


async def test_power_loses_nothing_that_shared_a_commit(tmp_path: Path) -> None:
    check_power(await work_together(tmp_path, "power", seed=2, cuts=60))


def test_crash_loses_the_newest_only_and_breaks_nothing(tmp_path: Path) -> None:
    losses = [lost(cut) for cut in work(tmp_path, "crash", seed=3, cuts=60)]
    # if nothing was ever lost, `power` would not be shown by this either
    assert any(losses)


async def test_crash_breaks_nothing_that_shared_a_commit(tmp_path: Path) -> None:
    losses = [lost(cut) for cut in await work_together(tmp_path, "crash", seed=4, cuts=60)]
    assert any(losses)


def test_without_any_sync_the_file_breaks(tmp_path: Path) -> None:
    """The disk can do harm: what holds with syncs does not without."""
    broken = 0
    for cut in work(tmp_path, "crash", seed=5, cuts=40, synchronous="off"):
        try:
            lost(cut)
        except (AssertionError, StoreError, apsw.Error):
            broken += 1
    assert broken > 0


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
async def test_many_cuts(tmp_path: Path, seed: int) -> None:
    check_power(work(tmp_path / "alone", "power", seed=seed, cuts=100))
    check_power(await work_together(tmp_path / "together", "power", seed=seed, cuts=100))
    for cut in work(tmp_path / "crash", "crash", seed=seed, cuts=100):
        lost(cut)


# the office


async def accept_until_cut(folder: Path, durability: str, *, seed: int, cuts: int) -> list[tuple[Path, list[str]]]:
    """T1 from eight doors at once; for each cut, what was left and which messages had been acknowledged."""
    accepted: list[str] = []
    made: list[tuple[Path, list[str]]] = []
    rng = random.Random(seed)
    steps = 400  # the office is made in peace

    def watch(act: str, path: str) -> None:
        nonlocal steps
        steps -= 1
        if steps == 0 and len(made) < cuts:
            steps = rng.randrange(1, 150)
            said = list(accepted)
            disk.cut(folder / f"cut-{len(made)}")
            made.append((folder / f"cut-{len(made)}", said))

    async def door(store: Store, name: int) -> None:
        n = 0
        while len(made) < cuts:
            n += 1
            arrival = Incoming(
                source="console", key=f"console_{name}{n:07}", text=f"hello {n}", channel="console", platform_id="here"
            )
            told = await store.accept(arrival, default_agent="amy", message_bytes=1000)
            accepted.extend(message["messageId"] for message in told.messages)

    disk = Disk(seed, watch=watch)
    with disk:
        store = Store(folder / "office.db", durability=durability)
        try:
            store._writer._db.wal_autocheckpoint(CHECKPOINT)
            await store.add_agent(id="amy", provider="rehearsal")
            await asyncio.gather(*(door(store, n) for n in range(8)))
        finally:
            store.close()
    return made


async def losses_of_office(cuts: list[tuple[Path, list[str]]]) -> int:
    """How many acknowledged messages are gone; the ledger is gapless and the file sound in any case."""
    gone = 0
    for folder, accepted in cuts:
        Store(folder / "office.db").close()
        db = open_reader(folder / "office.db")
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        seqs = [seq for (seq,) in db.execute("select seq from events order by seq")]
        assert seqs == list(range(1, len(seqs) + 1))
        assert db.execute("select seq from ledger_head").fetchall() == [(len(seqs),)]
        stored = {id for (id,) in db.execute("select message_id from messages where state = 0")}
        noted = {id for (id,) in db.execute("select message from events where kind = 'message_enqueued'")}
        db.close()
        assert stored == noted
        gone += len(set(accepted) - stored)
    return gone


@pytest.mark.parametrize("seed", [6, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(200, 210))])
async def test_an_office_loses_no_accepted_message(tmp_path: Path, seed: int) -> None:
    cuts = await accept_until_cut(tmp_path, "power", seed=seed, cuts=60)
    assert any(accepted for _, accepted in cuts)
    assert await losses_of_office(cuts) == 0


async def test_an_office_with_crash_loses_the_newest_only(tmp_path: Path) -> None:
    assert await losses_of_office(await accept_until_cut(tmp_path, "crash", seed=7, cuts=60)) > 0
