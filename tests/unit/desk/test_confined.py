from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.desk.confined import Confined


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("out", "host"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "outbound.db").write_text("a stranger's")
    return tmp_path


def test_a_session_of_the_host_itself_is_left_alone(folder: Path) -> None:
    assert Confined(folder).sandbox() is None
    Confined(folder).take_over()
    assert (folder / "out" / "outbound.db").exists()


def test_what_a_stranger_wrote_is_put_away_before_the_host_sits_down(folder: Path) -> None:
    Confined(folder).mark("bubblewrap")
    assert Confined(folder).sandbox() == "bubblewrap"
    Confined(folder).take_over()
    assert not (folder / "out").exists()
    assert (folder / "host" / "out" / "outbound.db").read_text() == "a stranger's"
    assert Confined(folder).sandbox() is None


def test_only_the_last_one_is_kept_and_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    for _ in range(2):
        (folder / "out").mkdir(exist_ok=True)
        (folder / "out" / "link").symlink_to(elsewhere)
        Confined(folder).mark("none")
        Confined(folder).take_over()
    assert (elsewhere / "precious").exists()


def test_a_session_without_its_folder(tmp_path: Path) -> None:
    assert Confined(tmp_path / "nothing").sandbox() is None
    Confined(tmp_path / "nothing").take_over()
