"""Whose code runs: files that others could have written are refused, with a sentence that says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manydesks.office.hooks.found import find
from manydesks.office.hooks.permission import MOST_BYTES, NotTrusted, read_source


@pytest.fixture
def file(home: Path) -> Path:
    folder = home / "plugins"
    folder.mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    path = folder / "mine.py"
    path.write_text("x = 1\n")
    path.chmod(0o600)
    return path


def test_ones_own_is_read(file: Path) -> None:
    assert read_source(file) == b"x = 1\n"
    file.chmod(0o644)  # others may read it
    assert read_source(file) == b"x = 1\n"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(NotTrusted, match=rf"can be written by others \(mode {mode:04o}\); run `chmod go-w {file}`"):
        read_source(file)


@pytest.mark.parametrize("above", [0, 1])
def test_a_folder_that_others_can_write_is_refused(file: Path, above: int) -> None:
    file.parents[above].chmod(0o770)
    with pytest.raises(NotTrusted, match=r"the folder .* can be written by others"):
        read_source(file)


def test_a_link_is_as_good_as_what_it_leads_to(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "checkout" / "real.py"
    real.parent.mkdir(mode=0o755)
    real.write_text("y = 2\n")
    real.chmod(0o644)
    link = file.with_name("link.py")
    link.symlink_to(real)
    assert read_source(link) == b"y = 2\n"
    real.parent.chmod(0o777)
    with pytest.raises(NotTrusted, match=f"the folder {real.parent} can be written"):
        read_source(link)


def test_another_users_is_refused(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, -1)
    # root would be trusted by anybody, but nobody by root
    with pytest.raises(NotTrusted, match="belongs to another user"):
        read_source(file)


def test_what_is_no_file_is_refused(file: Path) -> None:
    pipe = file.with_name("pipe.py")
    os.mkfifo(pipe, 0o600)
    with pytest.raises(NotTrusted, match="is not a file"):
        read_source(pipe)
    circle = file.with_name("circle.py")
    circle.symlink_to(circle)
    with pytest.raises(NotTrusted, match="cannot be read"):
        read_source(circle)
    with pytest.raises(NotTrusted, match="cannot be read: No such file"):
        read_source(file.with_name("gone.py"))


def test_a_huge_one_is_refused(file: Path) -> None:
    file.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(NotTrusted, match="larger than 1 MiB"):
        read_source(file)


def test_what_counts_as_a_plugin(file: Path) -> None:
    for name in ("_private.py", ".hidden.py", "notes.txt", "Bad Name.py"):
        file.with_name(name).write_text("")
    (file.parent / "__pycache__").mkdir()
    found = [(one.name, one.fault is None) for one in find(file.parent)]
    assert found == [("Bad Name", False), ("mine", True)]
    assert find(file.parent / "gone") == []
