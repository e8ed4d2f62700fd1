from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, MailboxTimeout
from manydesks.mailbox.copying import copy
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.mailbox.hostile import JOURNAL_MAGIC

OUT = ("out", "outbound.db")

#: another process: locks that one process has do not keep it from itself
HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "amy" / "session_1"
    HostMailbox(folder, session="session_1", agent="amy").prepare()
    DeskMailbox(folder / "in", folder / "out").open()
    return folder


def test_a_copy_is_what_the_file_was(session: Path, tmp_path: Path) -> None:
    assert copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20) is False
    assert (tmp_path / "copy").read_bytes() == (session / "out" / "outbound.db").read_bytes()
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_a_write_under_way_is_waited_for(session: Path, tmp_path: Path) -> None:
    path = session / "out" / "outbound.db"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(MailboxTimeout):
            copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20, seconds=0.05)
        assert not (tmp_path / "copy").exists()
    assert copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20) is False


def test_no_write_begins_while_it_is_copied(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is seen between two reads of the copy: a writer in another process is kept out."""
    from manydesks.mailbox import copying

    write = copying._write
    tried: list[str] = []

    def slow(source: int, size: int, target: Path) -> None:
        script = (
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=0.05, isolation_level=None)\n"
            "try: db.execute('update meta set last_seq = last_seq + 4'); print('written')\n"
            "except sqlite3.OperationalError as error: print(error)"
        )
        run = [sys.executable, "-c", script, str(session / "out" / "outbound.db")]
        tried.append(subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip())
        write(source, size, target)

    monkeypatch.setattr(copying, "_write", slow)
    copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20)
    assert tried == ["database is locked"]


def test_a_journal_that_was_left_goes_with_its_file(session: Path, tmp_path: Path) -> None:
    journal = session / "out" / "outbound.db-journal"
    journal.write_bytes(JOURNAL_MAGIC + b"the rest")
    assert copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20) is True
    assert (tmp_path / "copy-journal").read_bytes() == journal.read_bytes()


def test_an_empty_journal_is_none(session: Path, tmp_path: Path) -> None:
    (session / "out" / "outbound.db-journal").touch()
    assert copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20) is False
    assert not (tmp_path / "copy-journal").exists()


def test_what_a_desk_puts_in_its_place_is_refused(session: Path, tmp_path: Path) -> None:
    path = session / "out" / "outbound.db"
    with pytest.raises(BadInput, match="bytes, 10 are allowed"):
        copy(session, OUT, tmp_path / "copy", cap_bytes=10)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("secret")
    with pytest.raises(BadInput, match="symbolic link"):
        copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20)
    assert not (tmp_path / "copy").exists()


def test_the_copy_can_be_opened(session: Path, tmp_path: Path) -> None:
    copy(session, OUT, tmp_path / "copy", cap_bytes=1 << 20)
    db = sqlite3.connect(tmp_path / "copy")
    try:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()
