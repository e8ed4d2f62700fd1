"""kill -9 of senders, workers and processors on one jobs file: what they were told stays true.

Every process writes down what it was told, after the verb has come back. Those histories, the ledger and the rows must
fit. Run as a script, this file is one of those processes.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.queue import AsyncQueue, Message, Permanent, Processor, Queue
from manydesks.queue.file import ear_folder
from manydesks.queue.state import JobState
from manydesks.store.database import open_reader
from manydesks.testing.jobs import trouble

NAME = "q"
LEASE = 0.5
#: a kill costs an attempt of whatever the process had; poison must still die
TERMS: dict[str, Any] = {"lease": LEASE, "max_attempts": 6, "backoff": 0.02}
LANES = (None, None, "a", "b", "c")


# what the processes do


def clock() -> float:
    """The same for every process of the machine."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class History:
    """A file of lines; one is written at once, so a kill leaves whole lines or none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, what: str, **facts: object) -> None:
        os.write(self._file, (json.dumps({"what": what, "at": clock(), **facts}) + "\n").encode())

    def received(self, begun: float | None, messages: list[Message]) -> None:
        rows = [(message.id, message.fence, message.attempt, message.lane) for message in messages]
        self.note("received", begun=begun, messages=rows)


def sender(path: str, history: History, rng: random.Random) -> None:
    queue = Queue(path, NAME, **TERMS)
    for n in itertools.count():
        body = {"by": os.getpid(), "n": n}
        act = rng.random()
        if act < 0.2:
            ids = queue.send_batch([body] * 4, lane=rng.choice(LANES))
            history.note("sent", ids=ids, body=body)
        elif act < 0.4:
            key = f"key-{rng.randrange(5)}"
            history.note("sent", ids=[queue.send(body, key=key)], key=key)
        elif act < 0.5:
            history.note("sent", ids=[queue.send(body, delay=rng.uniform(0.001, 0.3))], body=body)
        elif act < 0.6:
            body["outbox"] = True
            with queue.transaction() as tx:
                id = queue.send(body, lane=rng.choice(LANES), tx=tx)
                tx.execute("insert into outbox (job) values (?)", (id,))
            history.note("sent", ids=[id], body=body)
        else:
            id = queue.send(body, lane=rng.choice(LANES), priority=rng.randrange(3))
            history.note("sent", ids=[id], body=body)
        time.sleep(rng.uniform(0.001, 0.01))


def visitor(path: str, history: History, rng: random.Random) -> None:
    """Comes and goes: opening and closing meet the others' writes, too."""
    while True:
        with closing(Queue(path, NAME, **TERMS)) as queue:
            body = {"visitor": rng.random()}
            history.note("sent", ids=[queue.send(body)], body=body)
            queue.stats()
        time.sleep(rng.uniform(0.01, 0.05))


async def senders(path: str, history: History, rng: random.Random) -> None:
    """Eight callers share commits."""
    async with AsyncQueue(path, NAME, **TERMS) as queue:

        async def one(rng: random.Random) -> None:
            while True:
                body = {"n": rng.random()}
                history.note("sent", ids=[await queue.send(body, lane=rng.choice(LANES))], body=body)
                await asyncio.sleep(rng.uniform(0.01, 0.05))

        await asyncio.gather(*(one(random.Random(rng.random())) for _ in range(8)))


def worker(path: str, history: History, rng: random.Random) -> None:
    queue = Queue(path, NAME, **TERMS)
    other = threading.Thread(target=work, args=(queue, history, random.Random(rng.random())), daemon=True)
    other.start()
    work(queue, history, rng)


def work(queue: Queue, history: History, rng: random.Random) -> None:
    while True:
        begun = clock()
        messages = queue.receive_batch(rng.randint(1, 8))
        history.received(begun, messages)
        time.sleep(0.02 if not messages else 0)
        for message in messages:
            act = rng.random()
            if act < 0.1:
                begun = clock()
                extended = queue.extend(message, 2 * LEASE)
                history.note("extended", begun=begun, fence=message.fence, ok=extended)
            history.note("ending", id=message.id, fence=message.fence)
            begun = clock()
            if act < 0.8:
                done = queue.complete(message)
                history.note("completed", begun=begun, id=message.id, fence=message.fence, ok=done)
            elif act < 0.9:
                queue.fail(message, "dice", retry_in=rng.uniform(0, 0.05))
            elif act < 0.95:
                queue.release(message)
            else:
                # forgotten: its lease has to bring it back
                history.note("forgotten", id=message.id, fence=message.fence)
            time.sleep(rng.uniform(0, 0.004))


async def workers(path: str, history: History, rng: random.Random) -> None:
    async with AsyncQueue(path, NAME, **TERMS) as queue:

        async def one(rng: random.Random) -> None:
            while True:
                begun = clock()
                messages = await queue.receive_batch(rng.randint(1, 3))
                history.received(begun, messages)
                await asyncio.sleep(rng.uniform(0, 0.01) if messages else 0.03)
                for message in messages:
                    history.note("ending", id=message.id, fence=message.fence)
                begun = clock()
                for message, done in zip(messages, await queue.complete_batch(messages), strict=True):
                    history.note("completed", begun=begun, id=message.id, fence=message.fence, ok=done)

        await asyncio.gather(*(one(random.Random(rng.random())) for _ in range(6)))


def processor(path: str, history: History, rng: random.Random) -> None:
    def handle(message: Message) -> None:
        history.received(None, [message])
        act = rng.random()
        # sometimes longer than a lease: the heartbeat keeps it
        time.sleep(1.5 * LEASE if act < 0.02 else rng.uniform(0, 0.01))
        history.note("ending", id=message.id, fence=message.fence)
        if act > 0.98:
            raise Permanent("dice")
        if act > 0.9:
            raise ValueError("dice")

    Processor(Queue(path, NAME, **TERMS), handle, concurrency=3).run()


async def async_processor(path: str, history: History, rng: random.Random) -> None:
    async def handle(message: Message) -> None:
        history.received(None, [message])
        act = rng.random()
        await asyncio.sleep(1.5 * LEASE if act < 0.02 else rng.uniform(0, 0.01))
        history.note("ending", id=message.id, fence=message.fence)
        if act > 0.9:
            raise ValueError("dice")

    async with AsyncQueue(path, NAME, **TERMS) as queue:
        running = Processor(queue, handle, concurrency=4).run()
        assert running is not None
        await running


ROLES: dict[str, Callable[[str, History, random.Random], Any]] = {
    role.__name__: role for role in (sender, senders, visitor, worker, workers, processor, async_processor)
}


# the killer


class Crowd:
    """One process of every role, at all times."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.jobs = folder / "jobs.db"
        self._folder = folder
        self._seed = seed
        self._started = itertools.count()
        self._alive: dict[str, subprocess.Popen[str]] = {}

    def start(self, role: str) -> None:
        number = next(self._started)
        history = self._folder / f"{number:03}-{role}.history"
        command = [sys.executable, __file__, role, str(self.jobs), str(history), str(self._seed * 1000 + number)]
        self._alive[role] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def kill(self, role: str) -> None:
        """It must have lived until now."""
        process = self._alive.pop(role)
        ended = process.poll()
        process.kill()
        _, said = process.communicate(timeout=30)
        assert ended is None, f"{role} ended by itself: {said}"
        assert "Traceback" not in said, f"a thread of {role} ended by itself: {said}"

    def kill_all(self) -> None:
        for role in list(self._alive):
            self.kill(role)


def survive(folder: Path, *, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    crowd = Crowd(folder, seed)
    with closing(Queue(crowd.jobs, NAME, **TERMS)) as queue, queue.transaction() as tx:
        tx.execute("create table outbox (job integer primary key)")
    try:
        for role in ROLES:
            crowd.start(role)
        for _ in range(kills):
            time.sleep(rng.uniform(0.2, 0.8))
            role = rng.choice(list(ROLES))
            crowd.kill(role)
            assert trouble(crowd.jobs, lease_ms=int(LEASE * 1000)) == []
            crowd.start(role)
        time.sleep(1)
    finally:
        try:
            crowd.kill_all()
        finally:
            shutil.rmtree(ear_folder(crowd.jobs), ignore_errors=True)
    rest(crowd.jobs)
    check(crowd.jobs, read(folder))


def rest(jobs: Path) -> None:
    """What the killed have left comes back, and is done."""
    with closing(Queue(jobs, NAME, **TERMS)) as queue:
        deadline = time.monotonic() + 60
        while any((stats := queue.stats())[state] for state in ("ready", "claimed", "delayed")):
            assert time.monotonic() < deadline, stats
            messages = queue.receive_batch(50)
            assert all(queue.complete_batch(messages))
            if not messages:
                time.sleep(0.01)


# the checker


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every line of every history, by what it tells; each knows its process."""
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*.history")):
        for line in path.read_text().splitlines():
            fact = json.loads(line)
            lines[fact["what"]].append(fact | {"process": path.name})
    return lines


def check(jobs: Path, told: dict[str, list[dict[str, Any]]]) -> None:
    assert trouble(jobs, lease_ms=int(LEASE * 1000)) == []
    db = open_reader(jobs)
    rows = {row[0]: row[1:] for row in db.execute("select id, state, body, key, lane, retry_count from jobs")}
    events = db.execute("select seq, kind, job from events order by seq").fetchall()
    outbox = {id for (id,) in db.execute("select job from outbox")}
    db.close()
    assert len(told["sent"]) > 20
    assert sum(fact["ok"] for fact in told["completed"]) > 20
    assert list(lost_sends(told, rows)) == []
    assert list(revived(told, rows)) == []
    assert list(double_claims(told)) == []
    assert list(disorder(told, rows, events)) == []
    assert list(unknown_receipts(told, events)) == []
    assert outbox == {id for id, row in rows.items() if "outbox" in json.loads(row[1])}
    for id, (state, body, _, _, attempts) in rows.items():
        # some were failed for good by a handler; the others had all their attempts
        assert state in (JobState.COMPLETED, JobState.DEAD), (id, state, body)
        assert attempts <= TERMS["max_attempts"]


def lost_sends(told: dict[str, list[dict[str, Any]]], rows: dict[int, Any]) -> Iterator[str]:
    for fact in told["sent"]:
        for id in fact["ids"]:
            if id not in rows:
                yield f"job {id} was acknowledged and is gone"
            elif "body" in fact and json.loads(rows[id][1]) != fact["body"]:
                yield f"job {id} has another body"
            elif fact.get("key") != rows[id][2]:
                yield f"job {id} has another key"


def revived(told: dict[str, list[dict[str, Any]]], rows: dict[int, Any]) -> Iterator[str]:
    done = {fact["id"]: fact for fact in told["completed"] if fact["ok"]}
    for id, n in Counter(fact["id"] for fact in told["completed"] if fact["ok"]).items():
        if n > 1:
            yield f"job {id} was completed {n} times"
    for id in done:
        if rows[id][0] != JobState.COMPLETED:
            yield f"job {id} was completed, and is {JobState(rows[id][0]).name}"
    for fact in told["received"]:
        for id, fence, _, _ in fact["messages"]:
            if id in done and fact["begun"] is not None and fact["begun"] > done[id]["at"]:
                yield f"job {id} was received under {fence} after it was completed"


def double_claims(told: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Two had a job, and the first had neither ended it nor lost its lease."""
    ended = {(fact["process"], fact["fence"], fact["id"]): fact["at"] for fact in told["ending"]}
    ended_lane: dict[int, float] = {}
    for fact in told["ending"]:
        ended_lane[fact["fence"]] = min(fact["at"], ended_lane.get(fact["fence"], fact["at"]))
    longer = {fact["fence"]: fact["begun"] + 2 * LEASE for fact in told["extended"] if fact["ok"]}
    receipts: dict[int, list[tuple[int, int, str | None, float | None, float, str]]] = defaultdict(list)
    owner: dict[int, str] = {}
    for fact in told["received"]:
        for id, fence, attempt, lane in fact["messages"]:
            receipts[id].append((fence, attempt, lane, fact["begun"], fact["at"], fact["process"]))
            if owner.setdefault(fence, fact["process"]) != fact["process"]:
                yield f"fence {fence} was given to {owner[fence]} and {fact['process']}"
    for id, claims in receipts.items():
        for first, second in itertools.pairwise(sorted(claims)):
            fence, attempt, lane, begun, _, process = first
            if fence == second[0]:
                yield f"job {id} was received twice under {fence}"
                continue
            if second[1] < attempt:
                yield f"job {id} lost an attempt between {fence} and {second[0]}"
            # the end of one message of a lane can end the claim of all
            end = ended.get((process, fence, id)) if lane is None else ended_lane.get(fence)
            if end is not None and end <= second[4]:
                continue
            # a processor does not know when its claim began; the ledger does, and was asked
            if begun is not None and second[4] < max(begun + LEASE, longer.get(fence, 0)):
                yield f"job {id} was received under {second[0]} while {fence} was live"


def disorder(
    told: dict[str, list[dict[str, Any]]], rows: dict[int, Any], events: list[tuple[Any, ...]]
) -> Iterator[str]:
    """No job of a lane is handed out before one that stands in front of it: jobs of lanes are never delayed here."""
    waiting: dict[str, set[int]] = defaultdict(set)
    for seq, kind, job in events:
        lane = rows[job][3] if job is not None else None
        if lane is None:
            continue
        if kind == "claimed":
            if job != min(waiting[lane]):
                yield f"event {seq}: job {job} was claimed before {min(waiting[lane])}"
            waiting[lane].discard(job)
        elif kind in ("sent", "retried", "released"):
            waiting[lane].add(job)
    together: dict[int, set[int]] = defaultdict(set)
    for fact in told["received"]:
        for id, fence, *_ in fact["messages"]:
            together[fence].add(id)
    begun: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for fact in sorted((fact for fact in told["completed"] if fact["ok"]), key=lambda fact: fact["id"]):
        if (lane := rows[fact["id"]][3]) is None:
            continue
        for _, earlier in begun[lane][bisect.bisect(begun[lane], (fact["at"], 0)) :]:
            # who has both may leave the first to its lease
            if earlier not in together[fact["fence"]]:
                yield f"job {fact['id']} of lane {lane} was completed before {earlier}"
        bisect.insort(begun[lane], (fact["begun"], fact["id"]))


def unknown_receipts(told: dict[str, list[dict[str, Any]]], events: list[tuple[Any, ...]]) -> Iterator[str]:
    """Whatever somebody was told is in the ledger."""
    in_ledger = Counter((kind, job) for _, kind, job in events)
    received = Counter(id for fact in told["received"] for id, *_ in fact["messages"])
    for id, n in received.items():
        if n > in_ledger["claimed", id]:
            yield f"job {id} was received {n} times, claimed {in_ledger['claimed', id]} times"
    for fact in told["completed"]:
        if fact["ok"] and in_ledger["completed", fact["id"]] != 1:
            yield f"job {fact['id']} was completed, but not in the ledger"


@pytest.mark.slow
def test_twelve_kills(tmp_path: Path) -> None:
    survive(tmp_path, kills=12, seed=1)


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    survive(tmp_path, kills=50, seed=seed)


# the checker sees what it is there for


def history_of(*facts: tuple[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for at, (what, fact) in enumerate(facts):
        told[what].append({"at": float(at) / 100, "begun": float(at) / 100, "process": "p", **fact})
    return told


def received(id: int, fence: int, lane: str | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
    return "received", {"messages": [(id, fence, 1, lane)], **more}


def test_the_checker_sees_a_double_claim() -> None:
    assert list(double_claims(history_of(received(1, 10), received(1, 11, process="other"))))
    assert list(double_claims(history_of(received(1, 10), received(2, 10, process="other"))))
    ending = ("ending", {"id": 1, "fence": 10})
    assert not list(double_claims(history_of(received(1, 10), ending, received(1, 11, process="other"))))
    late = received(1, 11, process="other", at=LEASE + 0.01)
    assert not list(double_claims(history_of(received(1, 10), late)))


def test_the_checker_sees_loss_revival_and_disorder() -> None:
    done = (int(JobState.COMPLETED), "{}", None, "q/a", 0)
    back = (int(JobState.READY), "{}", None, "q/a", 0)
    completed = ("completed", {"id": 1, "fence": 10, "ok": True})
    assert list(lost_sends(history_of(("sent", {"ids": [1], "body": {}})), {}))
    assert list(revived(history_of(completed), {1: back}))
    assert list(revived(history_of(completed, completed), {1: done}))
    assert list(revived(history_of(completed, received(1, 11)), {1: done}))
    events = [(1, "sent", 1), (2, "sent", 2), (3, "claimed", 2)]
    assert list(disorder(history_of(), {1: back, 2: back}, events))
    assert list(
        disorder(history_of(("completed", {"id": 2, "fence": 1, "ok": True}), completed), {1: done, 2: done}, [])
    )
    assert list(unknown_receipts(history_of(received(1, 10)), []))
    assert list(unknown_receipts(history_of(completed), []))


def main() -> None:
    role, path, history, seed = sys.argv[1:]
    playing = ROLES[role](path, History(history), random.Random(int(seed)))
    if asyncio.iscoroutine(playing):
        asyncio.run(playing)


if __name__ == "__main__":
    main()
