"""The file's steady time: it goes on, whoever sets the wall clock and however often the machine starts anew."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.store import boot, patience
from manydesks.store.boot import boot_id, steady_offset
from manydesks.store.database import open_writer
from manydesks.store.migrations import OFFICE
from manydesks.testing.clock import ManualClock

DAY = 86_400_000


@pytest.fixture
def db(path: Path, clock: ManualClock) -> Iterator[apsw.Connection]:
    made = open_writer(path, "crash")
    OFFICE.migrate(made, str(path), clock.now())
    yield made
    made.close()


def steady(db: apsw.Connection, clock: ManualClock, boot: str = "one") -> int:
    return steady_offset(db, clock, boot) + clock.since_boot()


def tell(db: apsw.Connection, at: int) -> None:
    columns = [(name, kind) for _, name, kind, needed, default, *_ in db.execute("pragma table_info(events)") if needed]
    values = [at if name == "at" else 1 if kind == "INTEGER" else "{}" for name, kind in columns]
    names = ", ".join(name for name, _ in columns)
    db.execute(f"insert into events ({names}) values ({', '.join('?' * len(values))})", values)


def test_it_begins_with_the_wall_clock_and_then_goes_its_own_way(db: apsw.Connection, clock: ManualClock) -> None:
    begun = steady(db, clock)
    assert begun == clock.now()
    clock.advance(1_000)
    clock.jump(DAY)
    assert steady(db, clock) == begun + 1_000
    clock.jump(-3 * DAY)
    assert steady(db, clock) == begun + 1_000
    clock.sleep(5_000)
    assert steady(db, clock) == begun + 6_000


def test_the_next_boot_begins_with_its_wall_clock(db: apsw.Connection, clock: ManualClock) -> None:
    begun = steady(db, clock)
    clock.advance(10_000)
    clock.reboot(away=60_000)
    assert steady(db, clock, "two") == begun + 70_000


def test_a_boot_whose_clock_comes_up_in_the_past_goes_on_from_the_last_event(
    db: apsw.Connection, clock: ManualClock
) -> None:
    begun = steady(db, clock)
    clock.advance(10_000)
    tell(db, begun + 10_000)
    clock.reboot()
    clock.jump(-DAY)
    assert steady(db, clock, "two") == begun + 10_000


def test_only_the_last_boot_is_kept(db: apsw.Connection, clock: ManualClock) -> None:
    for name in ("one", "two", "three"):
        steady(db, clock, name)
    db.execute("insert into marks (name, seq) values ('bootleg', 7)")
    steady(db, clock, "four")
    found = db.execute("select name from marks where name like 'boot%' order by name").fetchall()
    assert found == [("boot:four",), ("bootleg",)]


def test_whoever_comes_second_takes_what_is_there(path: Path, db: apsw.Connection, clock: ManualClock) -> None:
    """Two processes open the file at the same time: both have the same time."""
    other = open_writer(path, "crash")
    begun = steady(db, clock)
    clock.jump(DAY)
    assert steady(other, clock) == begun
    boot._begin_boot(other, clock, "one")  # it had looked before the first one wrote
    assert steady(other, clock) == begun
    other.close()


def test_known_already_it_writes_nothing(db: apsw.Connection, clock: ManualClock, path: Path) -> None:
    steady(db, clock)
    changes = db.total_changes()
    lock = apsw.Connection(str(path))
    lock.execute("begin immediate")
    db.set_busy_timeout(0)
    steady(db, clock)
    lock.close()
    assert db.total_changes() == changes


def test_a_failure_leaves_no_transaction_behind(db: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ManualClock):
        def now(self) -> int:
            raise OSError("no clock")

    with pytest.raises(OSError, match="no clock"):
        steady_offset(db, Broken(), "one")
    assert not db.in_transaction


def test_a_file_that_is_locked_is_waited_for(
    db: apsw.Connection, path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.02)
    lock = apsw.Connection(str(path))
    lock.execute("begin immediate")
    db.set_busy_timeout(0)
    with pytest.raises(apsw.BusyError):
        steady_offset(db, clock, "one")
    lock.close()
    assert steady(db, clock) == clock.now()


def test_the_boot_has_a_name_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from manydesks.store.boot import boot_id; print(boot_id())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert boot_id() == other
    assert len(other) == 36

    def missing(*_: Any, **__: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(subprocess, "run", missing)
    assert boot_id() == "unknown"
