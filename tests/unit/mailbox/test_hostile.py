"""The host reads what a desk forged and does nothing that the desk could want."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from manydesks.domain.errors import MailboxRefused, MailboxTimeout
from manydesks.domain.mail import Ack, Outbound, Step
from manydesks.mailbox import hostile
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox

DEEP = '{"a":' * 40 + "1" + "}" * 40


class Session:
    """A session with one committed write of its desk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.file = self.out / "outbound.db"
        self.journal = self.out / "outbound.db-journal"
        self.host = HostMailbox(folder, session="s1", agent="coder", cap_bytes=4 << 20)
        self.host.prepare()
        self.desk = DeskMailbox(folder / "in", folder / "out")
        self.desk.open()
        self.desk.write(
            steps=[Step(run="run_1", at=1, type="text", data={"text": "s"})],
            messages=[
                Outbound(
                    id="out_1", run="run_1", fence=1, in_reply_to="api_1", at=1, kind="chat", content={"text": "a"}
                )
            ],
            acks=[Ack(message="api_1", run="run_1", fence=1, status="completed", at=1)],
            state={"continuation": "c"},
        )

    def forge(self, *statements: str) -> None:
        connection = sqlite3.connect(self.file, isolation_level=None)
        try:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                connection.execute(statement)
        finally:
            connection.close()

    def refusal(self) -> str:
        with pytest.raises(MailboxRefused) as caught:
            self.host.collect(None, 0)
        assert [path.name for path in (self.folder / "host").iterdir() if path.name != "refused"] == []
        return str(caught.value)


def deep(top: Path, levels: int) -> None:
    top.mkdir()
    handle = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("below", dir_fd=handle)
        inner = os.open("below", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "s")


def make_hot(session: Session) -> None:
    """What a killed desk leaves: pages of an unfinished write in the file, and the journal that undoes them."""
    connection = sqlite3.connect(session.file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    for number in range(1_001, 1_401, 2):
        data = '{"text":"' + "x" * 3_000 + '"}'
        connection.execute("INSERT INTO steps VALUES (?, 'run_9', 1, 'text', ?)", (number, data))
    torn, journal = session.file.read_bytes(), session.journal.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    assert journal.startswith(hostile.JOURNAL_MAGIC)
    session.file.write_bytes(torn)
    session.journal.write_bytes(journal)


def test_a_sound_file_is_read_and_nothing_is_left_behind(session: Session) -> None:
    collected = session.host.collect(None, 0)
    assert collected is not None
    assert [row.id for row in collected.messages] == ["out_1"]
    assert list((session.folder / "host").iterdir()) == []


def test_a_session_without_the_hosts_own_folder_is_read_too(session: Session) -> None:
    (session.folder / "host").rmdir()
    assert session.host.collect(None, 0) is not None


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_symlink_is_refused_even_to_a_sound_file(session: Session, tmp_path: Path) -> None:
    other = Session(tmp_path / "other")
    session.file.unlink()
    session.file.symlink_to(other.file)
    assert "not a regular file" in session.refusal()


def test_a_symlink_in_place_of_the_folder_is_refused(session: Session, tmp_path: Path) -> None:
    other = Session(tmp_path / "other")
    shutil.rmtree(session.out)
    session.out.symlink_to(other.out)
    assert "out/ is not a folder" in session.refusal()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_no_file_is_refused_without_waiting_for_it(session: Session, make: Callable[[Path], None]) -> None:
    session.file.unlink()
    make(session.file)
    assert "not a regular file" in session.refusal()


def test_a_file_that_is_swapped_while_the_host_looks_is_never_followed(session: Session, tmp_path: Path) -> None:
    decoy = Session(tmp_path / "decoy")
    secret = decoy.host.collect(None, 0)
    assert secret is not None
    keep = session.out / "keep.db"
    os.link(session.file, keep)
    stop = threading.Event()

    def swap() -> None:
        link, real = session.out / "a", session.out / "b"
        while not stop.is_set():
            link.symlink_to(decoy.file)
            link.replace(session.file)
            os.link(keep, real)
            real.replace(session.file)

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes = {"read": 0, "refused": 0}
    try:
        until = time.monotonic() + 20
        while min(outcomes.values()) < 25 and time.monotonic() < until:
            try:
                collected = session.host.collect(None, 0)
            except MailboxRefused:
                outcomes["refused"] += 1
            else:
                assert collected is None or collected.epoch != secret.epoch
                outcomes["read"] += 1
    finally:
        stop.set()
        swapper.join()
    assert min(outcomes.values()) > 0


def test_a_file_over_the_cap_is_refused(session: Session) -> None:
    with session.file.open("r+b") as file:
        file.truncate(5 << 20)
    assert "4194304 are allowed" in session.refusal()


# --- journals ---------------------------------------------------------------------------------------------------------


def test_a_wal_header_is_refused(session: Session) -> None:
    session.forge("PRAGMA journal_mode = WAL")
    assert "WAL" in session.refusal()


def test_a_hot_journal_is_left_to_the_desk(session: Session) -> None:
    make_hot(session)
    before = session.file.read_bytes(), session.journal.read_bytes()
    with pytest.raises(MailboxRefused) as caught:
        session.host.collect(None, 0)
    assert caught.value.details["hot"] is True
    assert (session.file.read_bytes(), session.journal.read_bytes()) == before

    session.desk.open()
    collected = session.host.collect(None, 0)
    assert collected is not None
    assert [row.data for row in collected.steps] == [{"text": "s"}]
    assert [row.id for row in collected.messages] == ["out_1"]


def test_a_forged_journal_neither_rewrites_the_file_nor_deletes_another(session: Session, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(hostile.JOURNAL_MAGIC + bytes(600))
    name = str(victim).encode()
    checksum = sum(name).to_bytes(4, "big")
    header = hostile.JOURNAL_MAGIC + bytes(4) + bytes(4) + (1).to_bytes(4, "big") + (512).to_bytes(4, "big") * 2
    pending_page = (0x40000000 // 4096 + 1).to_bytes(4, "big")
    tail = pending_page + name + len(name).to_bytes(4, "big") + checksum + hostile.JOURNAL_MAGIC
    session.journal.write_bytes(header.ljust(512, b"\0") + tail)
    before = session.file.read_bytes()
    assert "hot journal" in session.refusal()
    assert victim.exists()
    assert session.file.read_bytes() == before


@pytest.mark.parametrize("content", [b"", bytes(512)], ids=["empty", "zeroed"])
def test_a_finished_journal_does_not_matter(session: Session, content: bytes) -> None:
    session.journal.write_bytes(content)
    assert session.host.collect(None, 0) is not None


def test_a_journal_that_is_a_symlink_is_refused(session: Session) -> None:
    session.journal.unlink(missing_ok=True)
    session.journal.symlink_to("/etc/passwd")
    assert "journal is not a regular file" in session.refusal()


def test_a_journal_that_is_a_fifo_is_refused_without_waiting(session: Session) -> None:
    session.journal.unlink(missing_ok=True)
    os.mkfifo(session.journal)
    assert "journal is not a regular file" in session.refusal()


# --- locks and time ---------------------------------------------------------------------------------------------------


def test_a_desk_that_holds_its_file_locked_costs_the_host_two_seconds(session: Session) -> None:
    holder = sqlite3.connect(session.file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    begun = time.monotonic()
    with pytest.raises(MailboxTimeout):
        session.host.collect(None, 0)
    assert time.monotonic() - begun < 4
    holder.close()
    assert session.host.collect(None, 0) is not None


def test_reading_ends_after_its_time(session: Session) -> None:
    session.desk.write(steps=[Step(run="run_1", at=1, type="text", data={"n": n}) for n in range(3_000)])
    with (  # noqa: PT012 - the reader's own errors are turned into refusals by the context
        pytest.raises(MailboxRefused, match="took more than"),
        hostile.outbound(
            session.out, session.folder / "host", token="t", cap_bytes=4 << 20, read_seconds=-1
        ) as connection,
    ):
        assert connection is not None
        connection.execute("SELECT count(*) FROM steps a, steps b").fetchall()


def test_reading_does_not_drop_the_locks_of_a_desk_in_the_same_process(session: Session) -> None:
    writer = sqlite3.connect(session.file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert session.host.collect(None, 0) is not None
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None); "
        "c.execute('BEGIN IMMEDIATE')"
    )
    other = subprocess.run([sys.executable, "-c", script, session.file], capture_output=True, text=True, check=False)
    writer.close()
    assert "database is locked" in other.stderr


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE VIEW more AS SELECT 1",),
        ("CREATE TABLE more (x)",),
        ("CREATE TRIGGER t AFTER INSERT ON steps BEGIN SELECT 1; END",),
        ("CREATE INDEX i ON steps (at)",),
        ("ALTER TABLE steps ADD COLUMN more TEXT",),
        ("DROP TABLE state",),
        ("ALTER TABLE steps RENAME TO hidden", "CREATE VIEW steps AS SELECT * FROM hidden"),
        ("ALTER TABLE acks ADD COLUMN g TEXT GENERATED ALWAYS AS (hex(zeroblob(9))) VIRTUAL",),
    ],
)
def test_other_tables_than_those_of_a_mailbox_are_refused(session: Session, statements: tuple[str, ...]) -> None:
    session.forge(*statements)
    assert "tables are not those of a mailbox" in session.refusal()


def test_a_view_with_the_name_and_text_of_a_table_is_refused(session: Session) -> None:
    session.forge("UPDATE sqlite_schema SET type = 'view', rootpage = 0 WHERE name = 'steps'")
    session.refusal()


def test_garbage_is_refused(session: Session) -> None:
    session.file.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    session.refusal()


def test_an_empty_file_is_a_desk_that_just_begins(session: Session) -> None:
    session.file.write_bytes(b"")
    assert session.host.collect(None, 0) is None


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE messages_out SET id = '../../x'", "id is not a public id"),
        ("UPDATE messages_out SET run = ''", "run is not a public id"),
        ("UPDATE messages_out SET in_reply_to = 'a b'", "in_reply_to is not a public id"),
        ("UPDATE messages_out SET fence = -1", "fence is not a whole number"),
        ("UPDATE messages_out SET at = 9000000000000000", "at is not a moment"),
        ("UPDATE messages_out SET deliver_after = -5", "deliver_after is not a moment"),
        ("UPDATE messages_out SET kind = 'root'", "kind is not one of"),
        ("UPDATE messages_out SET destination = 'a/../b'", "destination is not a name"),
        ("UPDATE messages_out SET content = 'no json'", "content is not JSON"),
        ("UPDATE messages_out SET content = '[1]'", "content is not a JSON object"),
        ("UPDATE messages_out SET content = '{\"n\": NaN}'", "content is not JSON"),
        ("UPDATE messages_out SET content = '{\"n\": 1e999}'", "number that is too large"),
        ('UPDATE messages_out SET content = \'{"t": "\\ud800"}\'', "half a character"),
        ("UPDATE messages_out SET content = '{\"\\udfff\": 1}'", "half a character"),
        (f"UPDATE messages_out SET content = '{DEEP}'", "deeper than 32"),
        ("UPDATE messages_out SET content = '" + "[" * 100_000 + "'", "content is not JSON"),
        ("UPDATE messages_out SET content = '{\"t\":\"' || hex(zeroblob(600000)) || '\"}'", "larger than 1048576"),
        ("UPDATE messages_out SET content = hex(zeroblob(1500000))", "SQLite cannot read it"),
        ("UPDATE messages_out SET content = CAST(x'7bff7d' AS TEXT)", "SQLite cannot read it"),
        ("UPDATE messages_out SET seq = 1000", "not odd"),
        ("UPDATE messages_out SET seq = (SELECT seq FROM steps)", "out of order"),
        ("UPDATE acks SET status = 'done'", "status is not one of"),
        ("UPDATE acks SET status = 'failed'", "class is not one of"),
        ("UPDATE acks SET class = 'transient'", "has no class"),
        ("UPDATE acks SET reason = hex(zeroblob(4000))", "reason is not a text"),
        ("UPDATE acks SET retry_after = 9e999", "retry_after is not a number"),
        ("UPDATE acks SET message = 'x' || char(10)", "message is not a public id"),
        ("UPDATE steps SET type = 'thought'", "type is not one of"),
        ("UPDATE steps SET data = '7'", "content is not a JSON object"),
        ("UPDATE state SET value = hex(zeroblob(10000))", "state 'continuation' is not a text"),
        ("UPDATE state SET key = 'Upper'", "key of state"),
        ("UPDATE meta SET epoch = 'x'", "epoch is not"),
        ("UPDATE meta SET schema = 99", "schema is not known"),
        ("DELETE FROM meta", "exactly one row"),
        ("INSERT INTO meta VALUES (2, 1, 'aaaaaaaaaaaaaaaa', 1)", "exactly one row"),
    ],
)
def test_a_row_that_no_desk_may_write_is_refused_with_the_reason(session: Session, statement: str, reason: str) -> None:
    session.forge(statement)
    assert reason in session.refusal()


def test_a_page_of_large_rows_is_cut(session: Session) -> None:
    big = HostMailbox(session.folder, session="s1", agent="coder")
    for number in range(20):
        data = {"text": "x" * 1_000_000, "n": number}
        session.desk.write(steps=[Step(run="run_1", at=1, type="text", data=data)])
    page = big.collect(None, 0)
    assert page is not None
    assert page.more
    assert 10 < len(page.steps) < 20
    rest = big.collect(page.epoch, page.last_seq)
    assert rest is not None
    assert len(page.steps) + len(rest.steps) == 21


def test_a_refused_file_is_set_aside_for_a_new_epoch(session: Session) -> None:
    session.forge("UPDATE messages_out SET kind = 'root'")
    session.refusal()
    session.host.set_aside()
    assert session.host.collect(None, 0) is None
    assert (session.folder / "host" / "refused" / "outbound.db").is_file()
    session.desk.open()
    collected = session.host.collect(None, 0)
    assert collected is not None
    assert collected.messages == ()


def test_what_was_set_aside_never_stands_in_the_way(session: Session) -> None:
    for _ in range(3):
        session.file.unlink()
        (session.file / "x").mkdir(parents=True)
        assert "not a regular file" in session.refusal()
        session.host.set_aside()
        session.desk.open()
        assert session.host.collect(None, 0) is not None


@pytest.mark.parametrize("name", hostile.BESIDE)
def test_a_folder_beside_the_file_is_set_aside_too(session: Session, name: str) -> None:
    for present in (True, False):
        if not present:
            session.file.unlink()
        (session.out / name).unlink(missing_ok=True)
        (session.out / name / "x").mkdir(parents=True)
        session.refusal()
        session.host.set_aside()
        session.desk.open()
        assert session.host.collect(None, 0) is not None


def test_a_folder_that_is_deep_or_closed_is_set_aside_and_later_removed(session: Session) -> None:
    session.file.unlink()
    deep(session.file, 1_500)
    session.file.chmod(0)
    session.host.set_aside()
    assert (session.folder / "host" / "refused" / "outbound.db").is_dir()
    session.desk.open()
    session.host.set_aside()
    assert (session.folder / "host" / "refused" / "outbound.db").is_file()
    assert [path.name for path in (session.folder / "host").iterdir()] == ["refused"]


def test_an_outbox_that_is_no_folder_is_made_anew(session: Session) -> None:
    for _ in range(2):
        (session.out / "outbox").rmdir()
        (session.out / "outbox").symlink_to("/tmp")
        session.host.prepare()
        assert (session.out / "outbox").is_dir()
        assert not (session.out / "outbox").is_symlink()


def test_a_heartbeat_that_leads_in_a_circle_beats(session: Session) -> None:
    (session.out / "heartbeat").symlink_to("heartbeat")
    os.utime(session.out / "heartbeat", (1, 1), follow_symlinks=False)
    session.desk.heartbeat()
    assert (session.host.last_heartbeat() or 0) > 1_000_000


def test_a_damaged_file_is_moved_past_what_lies_in_its_way(session: Session) -> None:
    (session.out / "damaged-outbound.db" / "x").mkdir(parents=True)
    session.file.write_bytes(b"no database at all, whatever its name says " * 50)
    session.desk.open()
    assert session.host.collect(None, 0) is not None
