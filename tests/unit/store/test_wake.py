"""Wake-ups across processes: the bell makes it quick, the poll makes it sure."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from manydesks.store import wake
from manydesks.store.database import open_reader, open_writer
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.migrations import OFFICE
from manydesks.store.wake import PREFIX, Bell, Listener

LISTEN = """
import sys
from pathlib import Path
from manydesks.store import wake
from manydesks.store.reader import Reader

wake.POLL_SECONDS = float(sys.argv[3])
reader = Reader(Path(sys.argv[1]), sockets=Path(sys.argv[2]))
reader.wait(0)
print("listening", flush=True)
print("woken" if reader.wait(60) else "slept", reader.head(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(home: Path) -> Path:
    home.mkdir()
    return home


@pytest.fixture
def db(folder: Path) -> Iterator[apsw.Connection]:
    made = open_writer(folder / "office.db", "crash")
    made.execute("create table t (x)")
    yield made
    made.close()


@pytest.fixture
def bell(folder: Path) -> Iterator[Bell]:
    made = Bell(folder)
    yield made
    made.close()


@contextlib.contextmanager
def listening(folder: Path, name: str = "me") -> Iterator[Listener]:
    eyes = open_reader(folder / "office.db")
    listener = Listener(folder / f"{PREFIX}{name}", eyes)
    try:
        yield listener
    finally:
        listener.close()
        eyes.close()


def commit(db: apsw.Connection) -> None:
    db.execute("insert into t values (1)")


@pytest.mark.parametrize("poll", [3600, 0.05], ids=["by the bell", "by the poll"])
def test_a_listener_in_another_process_is_woken(folder: Path, poll: float) -> None:
    """Without a poll only a datagram can wake it; with a poll and no bell, the file itself does."""
    db = open_writer(folder / "office.db", "crash")
    OFFICE.migrate(db, "office.db", 1)
    bell = Bell(folder)
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(folder / "office.db"), str(folder), str(poll)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "listening\n"
        db.execute("begin immediate")
        tx = OfficeTransaction(db, now=1, mono=1, steady=1, boot="b")
        tx.event("processor_start")
        tx.finish()
        db.execute("commit")
        if poll == 3600:
            bell.ring()
        assert other.stdout.readline() == "woken 1\n"
        other.communicate("bye\n", timeout=30)
    bell.close()
    db.close()


def test_a_datagram_wakes_at_once(
    folder: Path, db: apsw.Connection, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 3600.0)
    with listening(folder) as listener:
        thread = threading.Timer(0.05, lambda: (commit(db), bell.ring()))
        thread.start()
        began = time.monotonic()
        assert listener.wait(60) is True
        assert time.monotonic() - began < 30
        thread.join()


def test_a_commit_before_the_wait_is_noticed(folder: Path, db: apsw.Connection, bell: Bell) -> None:
    with listening(folder) as listener:
        commit(db)
        bell.ring()
        assert listener.wait(60) is True
        assert listener.wait(0) is False


def test_a_lost_datagram_costs_one_poll(folder: Path, db: apsw.Connection) -> None:
    with listening(folder) as listener:
        commit(db)
        assert listener.wait(60) is True


def test_a_bell_without_a_commit_wakes_nobody(folder: Path, db: apsw.Connection, bell: Bell) -> None:
    with listening(folder) as listener:
        bell.ring()
        assert listener.wait(0.2) is False


def test_a_listener_that_does_not_listen_blocks_nobody(folder: Path, db: apsw.Connection, bell: Bell) -> None:
    with listening(folder) as listener:
        for _ in range(2_000):  # more than its socket holds
            bell.ring()
        commit(db)
        assert listener.wait(60) is True


def test_several_listeners_hear_one_bell(
    folder: Path, db: apsw.Connection, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 3600.0)
    with listening(folder, "one") as one, listening(folder, "two") as two:
        commit(db)
        bell.ring()
        assert one.wait(60) is True
        assert two.wait(60) is True


def test_the_socket_of_a_dead_listener_is_swept(folder: Path, bell: Bell) -> None:
    dead = folder / f"{PREFIX}dead"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.bind(str(dead))
    assert dead.exists()
    bell.ring()
    assert not dead.exists()


def test_what_is_no_listener_is_left_alone(folder: Path, db: apsw.Connection, bell: Bell) -> None:
    other = folder / "other.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.bind(str(other))
    bell.ring()
    assert other.exists()


@pytest.mark.parametrize("what", ["file", "folder", "stream", "long"])
def test_rubbish_in_the_folder_does_not_silence_the_bell(
    folder: Path, db: apsw.Connection, bell: Bell, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bell never fails: a failed announcement would look like a failed commit."""
    monkeypatch.setattr(wake, "POLL_SECONDS", 3600.0)
    rubbish = folder / f"{PREFIX}0-rubbish"
    with contextlib.ExitStack() as stack:
        if what == "file":
            rubbish.write_text("x")
        elif what == "folder":
            rubbish.mkdir()
        elif what == "long":
            (folder / (PREFIX + "x" * 150)).touch()
        else:
            stream = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            stream.bind(str(rubbish))
            stream.listen()
        with listening(folder, "zz") as listener:
            commit(db)
            bell.ring()
            assert listener.wait(60) is True


def test_a_bell_without_its_folder_rings_for_nobody(tmp_path: Path) -> None:
    bell = Bell(tmp_path / "gone")
    bell.ring()
    bell.close()


def test_a_listener_whose_socket_cannot_be_made_polls(folder: Path, db: apsw.Connection) -> None:
    eyes = open_reader(folder / "office.db")
    listener = Listener(folder / "nowhere" / "listen-x", eyes)
    commit(db)
    assert listener.wait(60) is True
    listener.close()
    eyes.close()


def test_a_closed_listener_leaves_no_socket(folder: Path, db: apsw.Connection) -> None:
    with listening(folder):
        assert stat.S_ISSOCK(os.stat(folder / f"{PREFIX}me").st_mode)  # noqa: PTH116
    assert not (folder / f"{PREFIX}me").exists()
