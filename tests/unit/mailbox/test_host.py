from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, MailboxError, MailboxRefused, MailboxTimeout
from manydesks.domain.mail import Ack, Inbound
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import FOLDERS, HostMailbox


def message(number: int, *, fence: int = 1) -> Inbound:
    return Inbound(
        id=f"api_{number}", run="run_1", fence=fence, kind="chat", at=1, tries=1, content={"text": str(number)}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "coder" / "s1"


@pytest.fixture
def host(folder: Path) -> HostMailbox:
    host = HostMailbox(folder, session="s1", agent="coder")
    host.prepare()
    return host


def desk_of(folder: Path) -> DeskMailbox:
    desk = DeskMailbox(folder / "in", folder / "out")
    desk.open()
    return desk


def query(folder: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / "in" / "inbound.db")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_prepare_makes_folders_for_the_owner_alone(host: HostMailbox, folder: Path) -> None:
    for name in (".", "in", "in/inbox", "out", "out/outbox", "state", "host"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "in" / "inbound.db").stat().st_mode) == 0o600
    assert query(folder, "SELECT schema, session, agent FROM meta") == [(1, "s1", "coder")]


def test_prepare_again_keeps_everything(host: HostMailbox, folder: Path) -> None:
    host.put([message(1)])
    host.prepare()
    assert [row.id for row in desk_of(folder).waiting()] == ["api_1"]


@pytest.mark.parametrize("lost", ["in", "in/inbound.db", "in/inbox", "out", "out/outbox", "state", "host", "."])
def test_handing_over_makes_again_what_was_lost(host: HostMailbox, folder: Path, lost: str) -> None:
    host.hand_over([message(1)])
    path = folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    host.hand_over([message(2)])
    assert [row.id for row in desk_of(folder).waiting()][-1] == "api_2"
    assert all((folder / name).is_dir() for name in FOLDERS)


def test_handing_over_into_a_damaged_file_makes_it_anew(host: HostMailbox, folder: Path) -> None:
    host.hand_over([message(1)])
    (folder / "in" / "inbound.db").write_bytes(b"not a database" * 1000)
    host.hand_over([message(2)])
    assert [row.id for row in desk_of(folder).waiting()] == ["api_2"]


def test_prepare_refuses_a_symlink_in_place_of_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MailboxRefused):
        HostMailbox(folder, session="s1", agent="coder").prepare()


def test_a_mailbox_of_another_session_is_not_taken_over(host: HostMailbox, folder: Path) -> None:
    with pytest.raises(MailboxError, match="belongs to session s1 of coder"):
        HostMailbox(folder, session="s2", agent="coder").prepare()


def test_a_newer_schema_is_left_alone(host: HostMailbox, folder: Path) -> None:
    connection = sqlite3.connect(folder / "in" / "inbound.db")
    connection.execute("UPDATE meta SET schema = 99")
    connection.commit()
    connection.close()
    with pytest.raises(MailboxError, match="newer"):
        host.prepare()


def test_a_damaged_cache_is_made_anew_and_never_repeats_a_number(host: HostMailbox, folder: Path) -> None:
    host.put([message(1)])
    file = folder / "in" / "inbound.db"
    file.write_bytes(b"x" * 5_000)
    (folder / "in" / "inbound.db-journal").write_bytes(b"old")
    host.prepare()
    host.put([message(2)])
    [row] = desk_of(folder).waiting()
    assert row.id == "api_2"
    assert row.seq > 2
    assert row.seq % 2 == 0


def test_a_desk_that_holds_a_read_lock_stops_the_write_after_two_seconds(host: HostMailbox, folder: Path) -> None:
    reader = sqlite3.connect(f"{(folder / 'in' / 'inbound.db').as_uri()}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    with pytest.raises(MailboxTimeout):
        host.put([message(1)])
    reader.close()
    desk = desk_of(folder)
    assert desk.waiting() == []
    host.put([message(1)])
    assert len(desk.waiting()) == 1


def test_a_write_that_the_host_left_unfinished_is_invisible_and_then_undone(host: HostMailbox, folder: Path) -> None:
    host.put([message(1)])
    file, journal = folder / "in" / "inbound.db", folder / "in" / "inbound.db-journal"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    for number in range(200):
        connection.execute(
            "INSERT INTO control (verb, data) VALUES ('stop', ?)", ('{"n":"' + f"{number}" * 900 + '"}',)
        )
    torn, undo = file.read_bytes(), journal.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    file.write_bytes(torn)
    journal.write_bytes(undo)
    desk = desk_of(folder)
    assert desk.waiting() == []
    assert desk.controls(0) == []
    host.put([message(2)])
    assert [row.id for row in desk.waiting()] == ["api_1", "api_2"]
    assert desk.controls(0) == []


def test_acks_that_were_read_are_noted_with_the_next_write(host: HostMailbox, folder: Path) -> None:
    desk = desk_of(folder)
    host.put([message(1), message(2)])
    desk.write(acks=[Ack(message="api_1", run="run_1", fence=1, status="completed", at=1)])
    host.collect(None, 0)
    host.put([message(3)])
    assert query(folder, "SELECT id, status FROM messages_in ORDER BY seq") == [
        ("api_1", "settled"),
        ("api_2", "pending"),
        ("api_3", "pending"),
    ]


def test_an_ack_of_an_older_fence_settles_nothing(host: HostMailbox, folder: Path) -> None:
    desk = desk_of(folder)
    host.put([message(1)])
    desk.write(acks=[Ack(message="api_1", run="run_1", fence=1, status="completed", at=1)])
    host.collect(None, 0)
    host.put([message(1, fence=2)])
    host.put([message(2, fence=2)])
    assert [row.id for row in desk.waiting()] == ["api_1", "api_2"]


def test_a_row_that_is_no_message_is_refused(host: HostMailbox) -> None:
    with pytest.raises(BadInput, match="tries from 1"):
        host.put([Inbound(id="api_1", run="r", fence=1, kind="chat", at=1, tries=0, content={})])


def test_writing_before_prepare_fails_and_makes_nothing(folder: Path) -> None:
    host = HostMailbox(folder, session="s1", agent="coder")
    with pytest.raises(MailboxError):
        host.put([message(1)])
    assert not folder.exists()
    assert host.collect(None, 0) is None
