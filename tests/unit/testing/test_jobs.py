"""The checker of jobs files sees what it is there for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from manydesks.queue import Queue
from manydesks.testing.clock import ManualClock
from manydesks.testing.jobs import trouble


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A file in which much has happened."""
    clock = ManualClock()
    path = tmp_path / "jobs.db"
    with closing(Queue(path, lease=10, max_attempts=3, backoff=1, clock=clock, boot="b")) as queue:
        queue.send_batch(range(3), lane="a")
        queue.send("keyed", key="k")
        for n in range(8):
            queue.send(n)
        queue.send("later", delay=1000)
        queue.send("later", delay=1000, lane="a")
        first, second, *_ = queue.receive_batch(4)
        assert queue.complete(first)
        assert queue.fail(second, "no", retry_in=0)
        clock.advance(11_000)
        died, released, *others = queue.receive_batch(5)
        assert queue.fail(died, "never", permanent=True)
        assert queue.release(released) or released.lane is not None
        assert queue.complete(others[-1])
        queue.requeue(died.id)
        queue.cancel(12)
        assert len(queue.receive_batch(2)) > 0
    return path


#: what somebody did to it, and what of it is seen
HARM = {
    "update jobs set state = 3 where state = 1": "in the ledger",
    "update jobs set retry_count = 7 where id = 1": "after 7 attempts",
    "delete from jobs where id = 7": "in the ledger only",
    "update events set seq = 1000 where seq = (select max(seq) from events)": "stands where",
    "update ledger_head set seq = seq + 1": "its head is",
    "update counters set n = n + 1 where state = 0": "counted wrong",
    "delete from claims where lane is null": "claimed by nobody",
    "insert into claims (fence, worker, until, boot, size) values (900, 'w', 0, 'b', 1)": "a claim of nothing",
    "update jobs set ready = 0 where lane is null and state = 0": "of no lane, but not marked",
    "update jobs set ready = 1 where state = 1": "neither waiting nor ended, but marked",
    "update jobs set ready = 0 where state = 2": "delayed, but without its timer",
    "update marks set seq = 1 where name = 'position'": "a number beyond its sequence",
    "update events set kind = 'completed' where kind = 'retried'": "while COMPLETED",
    "update events set at = at - 100000 where seq = 5": "is older than the one before it",
}


def test_a_sound_file_has_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    Queue(path).close()
    assert trouble(path) == []


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_seen(sound: Path, harm: str) -> None:
    assert trouble(sound, lease_ms=10_000) == []
    with closing(sqlite3.connect(sound)) as db:
        db.execute("pragma ignore_check_constraints = on")
        assert db.execute(harm).rowcount > 0
        db.commit()
    assert [found for found in trouble(sound) if HARM[harm] in found]


def test_a_lease_that_was_cut_short_is_seen(sound: Path) -> None:
    assert [found for found in trouble(sound, lease_ms=60_000) if "was taken away" in found]
