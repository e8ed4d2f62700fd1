from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.attachment import Attachment
from manydesks.domain.errors import BadInput
from manydesks.mailbox.inbox import attachments, fill


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session" / "in" / "inbox").mkdir(parents=True)
    return tmp_path / "session"


def kept(home: Path, name: str, data: bytes) -> Attachment:
    folder = home / "files" / "abab"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return Attachment(name=name, bytes=len(data), sha256="ab" * 32, path=f"files/abab/{name}")


def test_the_desk_gets_a_copy(tmp_path: Path, session: Path) -> None:
    file = kept(tmp_path, "plan.txt", b"plan")
    fill(session, "console_1", [file], tmp_path)
    copy = session / "in" / "inbox" / "console_1" / "plan.txt"
    copy.write_bytes(b"PLAN")
    assert (tmp_path / file.path).read_bytes() == b"plan"
    assert [path.name for path in copy.parent.iterdir()] == ["plan.txt"]


def test_filling_it_again_changes_nothing_and_mends_what_is_half(tmp_path: Path, session: Path) -> None:
    file = kept(tmp_path, "plan.txt", b"plan")
    fill(session, "console_1", [file], tmp_path)
    copy = session / "in" / "inbox" / "console_1" / "plan.txt"
    before = copy.stat().st_ino
    fill(session, "console_1", [file], tmp_path)
    assert copy.stat().st_ino == before
    copy.write_bytes(b"pl")
    fill(session, "console_1", [file], tmp_path)
    assert copy.read_bytes() == b"plan"


def test_a_file_that_the_office_has_lost_is_missing_and_no_failure(tmp_path: Path, session: Path) -> None:
    lost, there = kept(tmp_path, "lost", b"x"), kept(tmp_path, "there", b"y")
    (tmp_path / lost.path).unlink()
    fill(session, "console_1", [lost, there], tmp_path)
    assert [path.name for path in (session / "in" / "inbox" / "console_1").iterdir()] == ["there"]


@pytest.mark.parametrize("name", ["inbox", "inbox/console_1"])
def test_a_link_in_the_way_is_not_followed(tmp_path: Path, session: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    at = session / "in" / name
    if at.exists():
        at.rmdir()
    at.symlink_to(elsewhere)
    with pytest.raises(BadInput, match="symbolic link"):
        fill(session, "console_1", [kept(tmp_path, "plan.txt", b"plan")], tmp_path)
    assert list(elsewhere.iterdir()) == []


def test_what_the_message_says_of_them() -> None:
    names = ("a.png", "b.pdf", "c.wav", "d")
    files = [Attachment(name=name, bytes=3, sha256="ab" * 32, path=f"files/x/{name}") for name in names]
    assert [(said["type"], said["mime"], said["path"]) for said in attachments("console_1", files)] == [
        ("image", "image/png", "console_1/a.png"),
        ("document", "application/pdf", "console_1/b.pdf"),
        ("audio", "audio/x-wav", "console_1/c.wav"),
        ("document", "application/octet-stream", "console_1/d"),
    ]
