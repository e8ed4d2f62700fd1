from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.domain.errors import MailboxError
from manydesks.domain.mail import Ack, Inbound, Step
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox


@pytest.fixture
def host(tmp_path: Path) -> HostMailbox:
    host = HostMailbox(tmp_path, session="s1", agent="coder")
    host.prepare()
    return host


@pytest.fixture
def desk(host: HostMailbox, tmp_path: Path) -> DeskMailbox:
    desk = DeskMailbox(tmp_path / "in", tmp_path / "out")
    desk.open()
    return desk


def step(text: str) -> Step:
    return Step(run="run_1", at=1, type="text", data={"text": text})


def epoch(host: HostMailbox) -> str:
    collected = host.collect(None, 0)
    assert collected is not None
    return collected.epoch


@pytest.mark.parametrize("offset", [0, 4_096 + 8], ids=["header", "inner page"])
def test_a_damaged_file_is_set_aside_for_a_new_epoch(
    desk: DeskMailbox, host: HostMailbox, tmp_path: Path, offset: int
) -> None:
    desk.write(steps=[step("x" * 500) for _ in range(100)])
    before = epoch(host)
    with (tmp_path / "out" / "outbound.db").open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 3_000)
    desk.open()
    collected = host.collect(before, 999)
    assert collected is not None
    assert collected.epoch != before
    assert collected.steps == ()
    assert (tmp_path / "out" / "damaged-outbound.db").is_file()
    desk.write(steps=[step("new")])


def test_the_journal_of_a_damaged_file_is_not_replayed_into_the_new_one(
    desk: DeskMailbox, host: HostMailbox, tmp_path: Path
) -> None:
    file, journal = tmp_path / "out" / "outbound.db", tmp_path / "out" / "outbound.db-journal"
    file.write_bytes(b"no database at all" * 300)
    journal.write_bytes(b"left behind")
    desk.open()
    desk.write(steps=[step("new")])
    desk.open()
    collected = host.collect(None, 0)
    assert collected is not None
    assert [row.data["text"] for row in collected.steps] == ["new"]


def test_a_database_of_somebody_else_is_set_aside(desk: DeskMailbox, host: HostMailbox, tmp_path: Path) -> None:
    file = tmp_path / "out" / "outbound.db"
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    desk.open()
    assert epoch(host)


def test_a_file_in_wal_mode_is_brought_back(desk: DeskMailbox, host: HostMailbox, tmp_path: Path) -> None:
    desk.write(steps=[step("a")])
    connection = sqlite3.connect(tmp_path / "out" / "outbound.db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    desk.open()
    collected = host.collect(None, 0)
    assert collected is not None
    assert len(collected.steps) == 1


def test_a_newer_schema_is_left_alone(desk: DeskMailbox, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "out" / "outbound.db")
    connection.execute("UPDATE meta SET schema = 99")
    connection.commit()
    connection.close()
    with pytest.raises(MailboxError, match="newer"):
        desk.open()
    assert not (tmp_path / "out" / "damaged-outbound.db").exists()


def test_a_desk_that_starts_again_knows_what_it_acked(desk: DeskMailbox, host: HostMailbox, tmp_path: Path) -> None:
    for fence, number in ((3, 1), (3, 2), (4, 3)):
        row = Inbound(id=f"m{number}", run="r", fence=fence, kind="chat", at=1, tries=1, content={})
        host.put([row])
    desk.write(acks=[Ack(message="m1", run="r", fence=3, status="failed", failure="transient", at=1)])
    again = DeskMailbox(tmp_path / "in", tmp_path / "out")
    again.open()
    assert [row.id for row in again.waiting()] == ["m3"]


def test_nothing_waits_where_the_host_has_made_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    desk = DeskMailbox(tmp_path / "in", tmp_path / "out")
    desk.open()
    assert desk.waiting() == []
    assert desk.controls(0) == []


_WRITER = """
import sys
from pathlib import Path
from manydesks.mailbox.desk import DeskMailbox
from manydesks.domain.mail import Ack, Step
folder = Path(sys.argv[1])
desk = DeskMailbox(folder / "in", folder / "out")
desk.open()
number = int(sys.argv[2])
while True:
    number += 1
    desk.write(steps=[Step(run="run_1", at=1, type="text", data={"n": number, "pad": "x" * 9000})],
               acks=[Ack(message=f"m{number}", run="run_1", fence=1, status="completed", at=1)])
    print(number, flush=True)
"""


def test_a_killed_desk_loses_nothing_that_it_had_written(host: HostMailbox, tmp_path: Path) -> None:
    """kill -9 in the middle of writes; the next open repairs, and a write is there as a whole or not at all."""
    last = 0
    for round_ in range(4):
        command = [sys.executable, "-c", _WRITER, str(tmp_path), str(1_000 * (round_ + 1))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(5 + 7 * round_):
                last = int(writer.stdout.readline())
            writer.kill()
            last = max([last, *(int(line) for line in writer.stdout.read().split())])
        desk = DeskMailbox(tmp_path / "in", tmp_path / "out")
        desk.open()
        collected = host.collect(None, 0, limit=10_000)
        assert collected is not None
        steps = [row.data["n"] for row in collected.steps]
        assert [f"m{number}" for number in steps] == [row.message for row in collected.acks]
        assert last in steps
        assert len(set(steps)) == len(steps)
