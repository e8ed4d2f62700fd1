"""Opening a store: made, brought up to date, or refused and left as it is."""

from __future__ import annotations

import contextlib
import random
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from manydesks.domain.errors import StoreBusy, StoreCorrupt, StoreError, StoreReadOnly, StoreTooNew
from manydesks.store import patience
from manydesks.store.database import check_engine, open_writer
from manydesks.store.migrations import OFFICE
from manydesks.store.schema import applied
from manydesks.store.store import Store

LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("locked", flush=True)
sys.stdin.readline()
db.execute("rollback")
"""


def made(path: Path) -> Path:
    Store(path, durability="crash").close()
    return path


def schema(path: Path) -> list[tuple[object, ...]]:
    db = apsw.Connection(str(path))
    try:
        return db.execute("select type, name, sql from sqlite_schema order by name").fetchall()
    finally:
        db.close()


def change(path: Path, sql: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()


def test_a_new_store_has_every_migration_once(path: Path) -> None:
    made(path)
    db = apsw.Connection(str(path))
    assert applied(db) == {name for name, _ in OFFICE.known()}
    db.close()


def test_opening_again_changes_nothing(path: Path) -> None:
    before = schema(made(path))
    content = path.read_bytes()
    made(path)
    assert schema(path) == before
    assert path.read_bytes() == content


def test_migrating_twice_applies_nothing_twice(path: Path) -> None:
    db = open_writer(path, "crash")
    assert OFFICE.migrate(db, str(path), 1) == [name for name, _ in OFFICE.known()]
    assert OFFICE.migrate(db, str(path), 2) == []
    assert db.execute("select distinct applied_at from schema_migrations").fetchall() == [(1,)]
    db.close()


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [int(name[1:5]) for name, _ in OFFICE.known()] == list(range(1, len(OFFICE.known()) + 1))


def test_a_migration_that_fails_leaves_nothing_of_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path)
    before = schema(path)

    def half(db: apsw.Connection) -> None:
        db.execute("create table half (x)")
        raise ZeroDivisionError

    steps = [*OFFICE.known(), ("m9999_half", half)]
    monkeypatch.setattr(OFFICE, "known", lambda: steps)
    with pytest.raises(ZeroDivisionError):
        Store(path, durability="crash")
    assert schema(path) == before


def test_a_newer_store_is_refused_and_left_byte_for_byte(path: Path) -> None:
    made(path)
    change(path, "insert into schema_migrations values ('m9999_future', 1)")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"m9999_future.*update ManyDesks"):
        Store(path, durability="crash")
    assert path.read_bytes() == before
    # a look at a store in WAL mode makes these two; nothing was written to the log
    assert not path.with_name("office.db-wal").exists() or path.with_name("office.db-wal").stat().st_size == 0


def test_a_newer_store_whose_host_was_killed_is_left_byte_for_byte_too(path: Path, tmp_path: Path) -> None:
    """Its last commits are still in the -wal file: they are not ours to move."""
    made(path)
    db = apsw.Connection(str(path))
    db.execute("insert into schema_migrations values ('m9999_future', 1)")
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("office.db", "office.db-wal"):
        shutil.copy(path.with_name(name), killed)
    db.close()
    assert (killed / "office.db-wal").stat().st_size > 0
    before = {name: (killed / name).read_bytes() for name in ("office.db", "office.db-wal")}
    with pytest.raises(StoreTooNew):
        Store(killed / "office.db", durability="crash")
    assert {name: (killed / name).read_bytes() for name in before} == before


@pytest.mark.parametrize(
    "content", [b"hello, I am a letter\n" * 500, b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_file_that_is_no_database_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="damaged or not a ManyDesks store"):
        Store(path, durability="crash")
    assert path.read_bytes() == content


def test_somebody_elses_database_is_left_as_it_is(path: Path) -> None:
    change(path, "create table messages (x); insert into messages values (1)")
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a ManyDesks store"):
        Store(path, durability="crash")
    assert path.read_bytes() == before


def test_a_damaged_store_says_so(path: Path) -> None:
    made(path)
    size = path.stat().st_size
    rng = random.Random(7)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(rng.randbytes(min(size, 8192) - 100))
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt):
        Store(path, durability="crash")
    assert path.read_bytes() == before


async def test_damage_further_in_is_named_when_it_is_met(path: Path) -> None:
    made(path)
    db = apsw.Connection(str(path))
    (page,) = db.execute("select rootpage from sqlite_schema where name = 'agents'").fetchall()[0]
    (size,) = db.execute("pragma page_size").fetchall()[0]
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xee" * size)
    store = Store(path, durability="crash")
    with pytest.raises(StoreCorrupt):
        await store.add_agent(id="ada", provider="rehearsal")
    store.close()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    assert len(schema(made(path))) > 20


def test_nobody_else_may_read_it(path: Path) -> None:
    store = Store(path, durability="crash")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob("office.db*")}
    store.close()
    assert modes == dict.fromkeys(("office.db", "office.db-wal", "office.db-shm"), 0o600)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder with a store, mounted read-only: permissions would not stop root."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    made(folder / "office.db")
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True, check=False).returncode != 0:
        pytest.skip("a read-only file system can only be mounted by root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_store_that_cannot_be_written_says_so(read_only: Path) -> None:
    before = (read_only / "office.db").read_bytes()
    with pytest.raises(StoreReadOnly, match="Read-only file system"):
        Store(read_only / "office.db", durability="crash")
    assert (read_only / "office.db").read_bytes() == before


def test_a_store_that_cannot_be_made_says_so(read_only: Path) -> None:
    with pytest.raises(StoreReadOnly):
        Store(read_only / "new.db", durability="crash")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="No such file or directory"):
        Store(tmp_path / "nowhere" / "office.db", durability="crash")


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        Store(tmp_path, durability="crash")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_lock_at_the_start_is_waited_for(path: Path) -> None:
    """Somebody repairs or migrates the file at this moment: a host that starts does not give up at once."""
    with sqlite_rollback_journal(path), locked(path) as other:
        letting_go = threading.Timer(0.3, other.communicate, ["go\n"])
        letting_go.start()
        made(path)
        letting_go.join()


def test_a_lock_that_stays_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.2)
    with sqlite_rollback_journal(path), locked(path), pytest.raises(StoreBusy):
        Store(path, durability="crash")


@contextlib.contextmanager
def sqlite_rollback_journal(path: Path) -> Iterator[None]:
    """A store that is not in WAL mode, as a restored copy may be: opening it needs the lock."""
    made(path)
    change(path, "pragma journal_mode = delete")
    yield


def test_an_engine_that_loses_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_engine()
    for version in ("3.7.0", "3.45.1", "3.51.2"):
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda version=version: version)
        with pytest.raises(StoreError, match="can lose writes"):
            check_engine()
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.3")
    check_engine()


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("crash", 1)])
def test_durability_is_what_was_asked_for(path: Path, durability: str, level: int) -> None:
    db = open_writer(path, durability)
    assert db.execute("pragma synchronous").fetchall() == [(level,)]
    assert db.execute("pragma journal_mode").fetchall() == [("wal",)]
    assert db.execute("pragma foreign_keys").fetchall() == [(1,)]
    db.close()


def test_opening_again_leaves_the_locks_of_this_process_alone(path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes any of its descriptors of it."""
    first = open_writer(path, "crash")
    OFFICE.migrate(first, str(path), 1)
    first.execute("begin immediate")
    first.execute("insert into marks values ('held', 1)")
    held = locks(path)
    second = open_writer(path, "crash")
    second.close()
    assert held
    assert locks(path) == held
    first.execute("rollback")
    first.close()


def locks(path: Path) -> list[str]:
    """Those on the file, without the number of their line, which depends on everybody's."""
    lines = Path("/proc/locks").read_text().splitlines()
    return sorted(line.partition(": ")[2] for line in lines if f":{path.stat().st_ino} " in line)
