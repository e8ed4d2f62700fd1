"""A manual is kept up to date between its marks, whatever lies in its place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput
from manydesks.office.workspace import manual
from manydesks.office.workspace.furnish import furnish_workspace
from manydesks.office.workspace.manual import NAME, Manual, check, look, refresh

#: complete, and not in its place yet
NEW = f".{NAME}.new"
MARKED = b"mine\r\n\xff\xfe<!-- manydesks:mates -->old<!-- /manydesks:mates -->\r\nmine too\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "amy"
    folder.mkdir()
    (folder / "AGENTS.md").write_bytes(MARKED)
    return folder


def test_it_is_written_once(folder: Path) -> None:
    file = folder / "AGENTS.md"
    file.chmod(0o640)
    assert refresh(folder, "new") is Manual.RENEWED
    text = file.read_bytes()
    assert text.startswith(b"mine\r\n\xff\xfe<!-- manydesks:mates |")
    assert text.endswith(b"-->\nnew\n<!-- /manydesks:mates -->\r\nmine too\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    known = file.stat()
    assert refresh(folder, "new") is Manual.KEPT
    assert file.stat().st_ino == known.st_ino
    assert [path.name for path in folder.iterdir()] == ["AGENTS.md"]


def test_a_new_workspace_has_the_marks(tmp_path: Path) -> None:
    furnish_workspace(tmp_path / "amy", agent="amy", name="Amy")
    assert look(tmp_path / "amy") is Manual.KEPT
    assert refresh(tmp_path / "amy", "who is here") is Manual.RENEWED


def test_what_an_owner_took_away_is_not_put_back(folder: Path) -> None:
    file = folder / "AGENTS.md"
    file.write_text("all mine")
    assert (refresh(folder, "new"), look(folder)) == (Manual.UNMARKED, Manual.UNMARKED)
    assert file.read_text() == "all mine"
    file.unlink()
    assert (refresh(folder, "new"), look(folder)) == (Manual.MISSING, Manual.MISSING)
    assert not file.exists()


def test_what_a_killed_office_left_is_no_hindrance(folder: Path) -> None:
    (folder / NEW).write_text("half")
    assert refresh(folder, "new") is Manual.RENEWED
    assert [path.name for path in folder.iterdir()] == ["AGENTS.md"]


def test_nothing_is_written_through_a_link(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(MARKED)
    file = folder / "AGENTS.md"
    file.unlink()
    file.symlink_to(secret)
    with pytest.raises(BadInput, match="symbolic link"):
        refresh(folder, "new")
    file.unlink()
    file.hardlink_to(secret)
    # the name gets a file of its own
    assert refresh(folder, "new") is Manual.RENEWED
    (folder / NEW).symlink_to(secret)
    assert refresh(folder, "newer") is Manual.RENEWED
    assert secret.read_bytes() == MARKED


def test_whether_it_could_be_written_is_known_before(folder: Path, tmp_path: Path) -> None:
    check(folder, b"words")
    check(tmp_path / "nobody", b"words")
    with pytest.raises(BadInput, match="larger than"):
        check(folder, b"x" * (manual.MOST_BYTES + 1))
    file = folder / "AGENTS.md"
    file.unlink()
    check(folder, b"words")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="symbolic link"):
        check(folder, b"words")
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_no_file_is_refused_without_waiting(folder: Path) -> None:
    file = folder / "AGENTS.md"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(BadInput, match="not a regular file"):
        refresh(folder, "new")
    file.unlink()
    file.mkdir()
    with pytest.raises(BadInput):
        refresh(folder, "new")


def test_a_huge_one_is_refused(folder: Path) -> None:
    with (folder / "AGENTS.md").open("ab") as file:
        file.truncate(manual.MOST_BYTES + 1)
    with pytest.raises(BadInput, match="larger than"):
        refresh(folder, "new")


def test_what_a_person_saves_meanwhile_is_not_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "AGENTS.md"
    seen = []

    def saved(data: bytes, part: str) -> bytes | None:
        seen.append(data)
        if len(seen) == 1:
            file.write_bytes(b"just saved " + MARKED)
        return original(data, part)

    original = manual.renewed
    monkeypatch.setattr(manual, "renewed", saved)
    assert refresh(folder, "new") is Manual.RENEWED
    assert file.read_bytes().startswith(b"just saved mine")
    assert len(seen) == 2
