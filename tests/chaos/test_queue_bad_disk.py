"""Jobs files on bad disks: a typed error, nothing changed; the innocent go through, and it works again later."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from manydesks.domain.errors import (
    ManyDesksError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from manydesks.queue import AsyncQueue, Message, Processor, Queue
from manydesks.queue.ear import Ear
from manydesks.queue.file import ear_folder
from manydesks.store import patience
from manydesks.store.store import Store
from manydesks.testing.disk import fill
from manydesks.testing.jobs import trouble
from manydesks.testing.power import Disk

PAGE = 4096


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def small(tmp_path: Path, mount: Callable[..., None]) -> Path:
    """A folder with eight megabytes."""
    mount("size=8m", at=tmp_path / "small")
    return tmp_path / "small"


# a full disk


@pytest.mark.parametrize("leave", [0, 4096, 8192, 20_000, 36_000, 65_000])
def test_a_disk_that_is_full_when_the_file_is_made(small: Path, leave: int) -> None:
    ballast = fill(small, leave=leave)
    with pytest.raises(StoreFull, match="is full; nothing was changed"):
        Queue(small / "jobs.db")
    ballast.unlink()
    with closing(Queue(small / "jobs.db")) as queue:
        assert queue.send("now") == 1
    assert trouble(small / "jobs.db") == []


@pytest.mark.parametrize("leave", [0, 4096, 20_000])
def test_a_disk_that_is_full_when_the_file_is_opened(small: Path, leave: int) -> None:
    with closing(Queue(small / "jobs.db")) as queue:
        queue.send("before")
    ballast = fill(small, leave=leave)
    with pytest.raises(StoreFull):
        Queue(small / "jobs.db")
    ballast.unlink()
    with closing(Queue(small / "jobs.db")) as queue:
        message = queue.receive()
        assert message is not None
        assert message.body == "before"


def test_a_disk_that_becomes_full_and_gets_room_again(small: Path) -> None:
    with closing(Queue(small / "jobs.db")) as queue:
        claimed = queue.receive_batch(1) if queue.send("first") else []
        sent, refusals = [], []
        while len(refusals) < 3:
            try:
                # large enough to need the log moved into the file on the way
                sent.append(queue.send("x" * 20_000))
            except StoreFull as error:
                refusals.append(error)
        # the log may have some room left; a body of this size has none
        with pytest.raises(StoreFull):
            queue.send_batch(["x" * 20_000] * 20)
        assert queue.stats()["ready"] == len(sent)
        fill(small).unlink()
        shutil.rmtree(ear_folder(small / "jobs.db"), ignore_errors=True)
        subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
        assert queue.complete(claimed[0])
        sent.append(queue.send("x" * 20_000))
        assert len(sent) > 100
        done = [message.id for _ in range(3) for message in queue.receive_batch(1000) if queue.complete(message)]
        assert done == sent
    assert trouble(small / "jobs.db") == []


async def test_the_innocent_of_a_batch_are_stored_on_a_disk_that_is_nearly_full(small: Path) -> None:
    async with AsyncQueue(small / "jobs.db", max_bytes=4_000_000) as queue:
        fill(small, leave=1_000_000)
        # the first is committed alone; the others come meanwhile and share a commit
        sends = [queue.send("x" * (2_000_000 if n % 8 == 7 else 10)) for n in range(32)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        refused = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, StoreFull)]
        assert refused == [7, 15, 23, 31]
        stored = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(stored) + len(refused) == 32
        assert [job.id for job in await queue.list(limit=1000)] == sorted(stored)
    assert trouble(small / "jobs.db") == []


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_processor_waits_for_room(small: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """What it has done meanwhile is neither lost nor done twice."""
    jobs = small / "jobs.db"
    ballast: list[Path] = []
    filling = threading.Lock()
    handled: list[int] = []

    def handle(message: Message) -> None:
        with filling:
            if not ballast:
                ballast.append(fill(small))
        handled.append(message.id)

    async def handle_task(message: Message) -> None:
        handle(message)

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with closing(Queue(jobs)) as queue:
        ids = queue.send_batch(range(20))
        if kind == "threads":
            processor = Processor(queue, handle, concurrency=2, signals=False)
            running = threading.Thread(target=processor.run)
        else:
            tasks = AsyncQueue(jobs)
            processor = Processor(tasks, handle_task, concurrency=2, signals=False)

            async def run() -> None:
                await processor.run()

            running = threading.Thread(target=lambda: asyncio.run(run()))
        running.start()
        try:
            until(lambda: "is full" in caplog.text)
            ballast[0].unlink()
            until(lambda: queue.stats()["completed"] == 20)
        finally:
            processor.stop()
            running.join(30)
            if kind == "tasks":
                tasks.close()
        assert sorted(handled) == ids
        assert {job.attempts for job in queue.list(limit=100)} == {0}
    shutil.rmtree(ear_folder(jobs), ignore_errors=True)
    assert trouble(jobs) == []


def test_a_processors_ear_outlives_a_look_that_failed(jobs: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it could not see may have happened, so it says so; nobody waits for a wake-up that never comes."""
    heard = threading.Semaphore(0)
    with closing(Queue(jobs)) as queue, Ear(queue.file, heard.release) as ear:
        ear._db.close()
        assert heard.acquire(timeout=20)
        assert heard.acquire(timeout=20)
    assert "closed" in caplog.text
    shutil.rmtree(ear_folder(jobs), ignore_errors=True)


# no room in the middle of a group commit


class Room:
    """Refuses writes to the log: the n-th, or the n-th and all after it."""

    def __init__(self) -> None:
        self.seen = 0
        self.refuse_from = 0
        self.for_good = False
        self.syncs = 0

    def watch(self, act: str, path: str) -> None:
        if not path.endswith("-wal"):
            return
        self.syncs += act == "sync"
        if act == "sync" or not self.refuse_from:
            return
        self.seen += 1
        if self.seen == self.refuse_from or (self.for_good and self.seen > self.refuse_from):
            raise apsw.FullError("no room")


async def grouped(queue: AsyncQueue, room: Room) -> list[int | BaseException]:
    """Eight sends, most of which share a commit."""
    syncs = room.syncs
    async with queue.transaction():
        sends = [asyncio.ensure_future(queue.send(n)) for n in range(8)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    if not room.refuse_from:
        assert room.syncs - syncs < 8
    return outcomes


async def test_no_room_at_any_write_of_a_group_commit(jobs: Path) -> None:
    """Refused once, the batch is played one by one, and everybody's operation is done, once."""
    room = Room()
    with Disk(watch=room.watch):
        async with AsyncQueue(jobs) as queue:
            expected = 0
            for nth in range(1, 1000):
                room.seen, room.refuse_from = 0, nth
                outcomes = await grouped(queue, room)
                room.refuse_from = 0
                refused = [outcome for outcome in outcomes if isinstance(outcome, StoreFull)]
                # at most one transaction met the refusal by itself: that of the first, which had come before the others
                assert len(refused) <= 1
                stored = [outcome for outcome in outcomes if isinstance(outcome, int)]
                assert len(stored) + len(refused) == 8
                expected += len(stored)
                assert (await queue.stats())["ready"] == expected
                if room.seen < nth:
                    break
            else:
                pytest.fail("the commit never ended")
            assert nth > 10
    assert trouble(jobs) == []


async def test_no_room_from_any_write_of_a_group_commit_on(jobs: Path) -> None:
    """Whoever is told "full" has changed nothing; with room, all goes on."""
    room = Room()
    with Disk(watch=room.watch):
        async with AsyncQueue(jobs) as queue:
            known: set[int] = set()
            for nth in range(1, 1000):
                room.seen, room.refuse_from, room.for_good = 0, nth, True
                outcomes = await grouped(queue, room)
                room.refuse_from = 0
                assert all(isinstance(outcome, int | StoreFull) for outcome in outcomes)
                known |= {outcome for outcome in outcomes if isinstance(outcome, int)}
                assert {job.id for job in await queue.list(limit=10_000)} == known
                after = await queue.send("room again")
                known.add(after)
                if room.seen < nth:
                    break
            else:
                pytest.fail("the commit never ended")
            assert nth > 10
    assert trouble(jobs) == []


def test_an_error_of_the_disk_at_any_write_and_sync(jobs: Path) -> None:
    acts = 0
    refuse = 0

    def watch(act: str, path: str) -> None:
        nonlocal acts
        if path.endswith("-wal"):
            acts += 1
            if acts == refuse:
                raise apsw.IOError("the disk is gone")

    with Disk(watch=watch), closing(Queue(jobs)) as queue:
        for nth in range(1, 1000):
            before = queue.stats()["ready"]
            acts, refuse = 0, nth
            try:
                queue.send("x")
            except ManyDesksError as error:
                assert "The disk of" in str(error)  # noqa: PT017 - both ways are right
                assert queue.stats()["ready"] == before
            refuse, done = 0, acts < nth
            if done:
                break
            queue.send("again")
            assert queue.stats()["ready"] == before + 1
        assert nth > 5
    assert trouble(jobs) == []


# what may not be written


def without_rights(code: str, *arguments: object) -> str:
    """What a process prints for whom the mode of a file counts, as it does not for root."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write to any file, and there is no setpriv")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TRY = """
import sys
from manydesks.domain.errors import StoreError
from manydesks.queue import Queue
try:
    Queue(sys.argv[1]).send("x")
except StoreError as error:
    print(type(error).__name__, error)
else:
    print("sent")
"""


def test_a_read_only_file(jobs: Path) -> None:
    Queue(jobs).close()
    before = jobs.read_bytes()
    jobs.chmod(0o400)
    assert without_rights(TRY, jobs).startswith("StoreReadOnly ")
    assert jobs.read_bytes() == before
    jobs.chmod(0o600)
    assert without_rights(TRY, jobs) == "sent"


def test_a_read_only_folder(jobs: Path) -> None:
    Queue(jobs).close()
    before = jobs.read_bytes()
    jobs.parent.chmod(0o500)
    try:
        assert without_rights(TRY, jobs).startswith("StoreReadOnly ")
        assert without_rights(TRY, jobs.with_name("new.db")).startswith("StoreReadOnly ")
    finally:
        jobs.parent.chmod(0o700)
    assert jobs.read_bytes() == before
    assert without_rights(TRY, jobs) == "sent"


def test_a_read_only_disk(small: Path) -> None:
    jobs = small / "jobs.db"
    Queue(jobs).close()
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    for path in (jobs, small / "new.db"):
        with pytest.raises(StoreReadOnly):
            Queue(path)
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    with closing(Queue(jobs)) as queue:
        queue.send("x")


def test_a_path_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="No such file or directory"):
        Queue(tmp_path / "nowhere" / "jobs.db")
    with pytest.raises(StoreReadOnly, match="it is not a file"):
        Queue(tmp_path)


# what is damaged, or not ours


def make_used(jobs: Path) -> bytes:
    """A file with every kind of job in it."""
    rng = random.Random(1)
    with closing(Queue(jobs, max_attempts=2)) as queue:
        for n in range(60):
            queue.send(
                {"n": n, "text": "x" * rng.choice((1, 100, 3000, 9000))},
                lane=rng.choice((None, "a", "b")),
                key=f"key-{n}" if n % 3 == 0 else None,
                delay=100 if n % 7 == 0 else 0,
            )
        for message in queue.receive_batch(10):
            queue.complete(message)
        for message in queue.receive_batch(10):
            queue.fail(message, "no", permanent=message.id % 2 == 0)
        queue.receive_batch(3)
    return jobs.read_bytes()


VERBS: tuple[Callable[[Queue], object], ...] = (
    lambda queue: queue.send(1),
    lambda queue: queue.send(1, lane="a"),
    lambda queue: queue.send(1, key="key-3"),
    lambda queue: queue.stats(),
    lambda queue: queue.list(limit=1000),
    lambda queue: queue.dead_letters(),
    lambda queue: [queue.complete(message) for message in queue.receive_batch(5)],
    lambda queue: [queue.fail(message, "no") for message in queue.receive_batch(5)],
    lambda queue: queue.cancel(50),
    lambda queue: queue.prune(0),
    lambda queue: queue.purge(),
)


def refusals(path: Path, content: bytes) -> int:
    """How often somebody is told that the file is damaged; nobody is told anything else that is wrong."""
    for left in path.parent.glob(path.name + "*"):
        left.unlink()
    path.write_bytes(content)
    try:
        queue = Queue(path, max_attempts=2, durability="crash")
    except StoreCorrupt:
        assert path.read_bytes() == content, "it was to be left as it is"
        return 1
    refused = 0
    with closing(queue):
        for verb in VERBS:
            try:
                verb(queue)
            except StoreCorrupt:
                refused += 1
    return refused


@pytest.mark.slow
def test_damage_in_any_page(tmp_path: Path) -> None:
    good = make_used(tmp_path / "good.db")
    rng = random.Random(2)
    seen = 0
    for start in range(0, len(good), PAGE):
        for harm in (rng.randbytes(PAGE), bytes(PAGE), b"\xff" * PAGE):
            seen += refusals(tmp_path / "bad.db", good[:start] + harm + good[start + PAGE :]) > 0
    # some pages are free, and some are looked at by nobody here
    assert seen > len(good) // PAGE


def test_a_damaged_header_is_seen_at_once_and_left_alone(tmp_path: Path) -> None:
    good = make_used(tmp_path / "good.db")
    for harm in (b"dear diary, this is no database.", bytes(100), good[:50]):
        bad = tmp_path / "bad.db"
        bad.write_bytes(harm + (good[len(harm) :] if len(harm) != 50 else b""))
        before = bad.read_bytes()
        with pytest.raises(StoreCorrupt, match="is damaged or not a ManyDesks store"):
            Queue(bad)
        assert bad.read_bytes() == before


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    good = make_used(tmp_path / "good.db")
    rng = random.Random(3)
    # a file of no byte, or of one (a habit of SQLite), counts as new
    sizes = [2, 100, *range(PAGE, len(good) - PAGE, PAGE), *(rng.randrange(2, len(good) - PAGE) for _ in range(30))]
    for size in sizes:
        assert refusals(tmp_path / "bad.db", good[:size]) > 0, size


def test_a_file_of_a_newer_version_is_left_alone(jobs: Path) -> None:
    Queue(jobs).close()
    with closing(sqlite3.connect(jobs)) as db:
        db.execute("insert into schema_migrations (name, applied_at) values ('m9999_tomorrow', 0)")
        db.commit()
    before = jobs.read_bytes()
    with pytest.raises(StoreTooNew, match="m9999_tomorrow"):
        Queue(jobs)
    assert jobs.read_bytes() == before


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    office, jobs, other = tmp_path / "office.db", tmp_path / "jobs.db", tmp_path / "other.db"
    Store(office).close()
    Queue(jobs).close()
    with closing(sqlite3.connect(other)) as db:
        db.execute("create table jobs (id integer)")
        db.commit()
    before = [path.read_bytes() for path in (office, jobs, other)]
    for path in (office, other):
        with pytest.raises(StoreCorrupt, match="it has tables, but not those of a jobs file"):
            Queue(path)
    for path in (jobs, other):
        with pytest.raises(StoreCorrupt, match="it has tables, but not those of an office"):
            Store(path)
    assert [path.read_bytes() for path in (office, jobs, other)] == before


# somebody else writes


@pytest.fixture
def patient_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda seconds: monkeypatch.setattr(patience, "BUSY_SECONDS", seconds)


def hold(jobs: Path) -> subprocess.Popen[str]:
    """Another process has begun to write; it ends that when its input ends."""
    code = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("held", flush=True)
sys.stdin.read()
db.execute("rollback")
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(jobs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def let_go(holder: subprocess.Popen[str]) -> None:
    holder.communicate(timeout=30)


@pytest.mark.slow
async def test_a_lock_of_seconds_is_waited_for(jobs: Path) -> None:
    async with AsyncQueue(jobs) as queue:
        with closing(Queue(jobs, "other")) as other:
            holder = hold(jobs)
            later = threading.Timer(2, let_go, [holder])
            later.start()
            begun = time.monotonic()
            sends = asyncio.gather(*(queue.send(n) for n in range(20)))
            alone = asyncio.to_thread(other.send, "x")
            opened = asyncio.to_thread(lambda: Queue(jobs, "third", durability="crash").close())
            ids, *_ = await asyncio.gather(sends, alone, opened)
            assert time.monotonic() - begun > 1.5
            assert len(set(ids)) == 20
            later.join()
    assert trouble(jobs) == []


async def test_a_lock_that_is_not_let_go(jobs: Path, patient_for: Callable[[float], None]) -> None:
    async with AsyncQueue(jobs) as queue:
        with closing(Queue(jobs)) as other:
            other.send("before")
            message = other.receive()
            assert message is not None
            holder = hold(jobs)
            patient_for(0.3)
            begun = time.monotonic()
            outcomes = await asyncio.gather(*(queue.send(n) for n in range(20)), return_exceptions=True)
            # the first alone, then all the others together: they do not wait one after another
            assert time.monotonic() - begun < 5
            assert {type(outcome) for outcome in outcomes} == {StoreBusy}
            for verb in (lambda: other.send("x"), lambda: other.complete(message), lambda: other.receive()):
                with pytest.raises(StoreBusy, match=r"has held the store .* for 0\.3 s; nothing was changed"):
                    verb()
            with pytest.raises(StoreBusy), other.transaction():
                pass
            with pytest.raises(StoreBusy):
                Queue(jobs, "new", durability="crash")
            let_go(holder)
            assert other.complete(message)
            assert await queue.stats() == {
                "ready": 0,
                "claimed": 0,
                "delayed": 0,
                "completed": 1,
                "dead": 0,
                "cancelled": 0,
            }
            await queue.send("after")
    assert trouble(jobs) == []
