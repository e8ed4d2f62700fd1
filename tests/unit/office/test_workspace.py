from __future__ import annotations

import stat
from pathlib import Path

from manydesks.office.workspace.furnish import FILES, furnish_workspace


def test_a_new_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "amy"
    furnish_workspace(folder, agent="amy", name="Amy Writer")
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == sorted(FILES)
    manual = (folder / "AGENTS.md").read_text()
    assert manual.startswith("# How Amy Writer works")
    assert "`amy`" in manual
    assert "{" not in manual
    # a heartbeat costs nothing while this is empty
    assert (folder / "HEARTBEAT.md").read_text() == ""
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_person_wrote_stays(tmp_path: Path) -> None:
    folder = tmp_path / "amy"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("mine")
    furnish_workspace(folder, agent="amy", name="Amy")
    assert (folder / "AGENTS.md").read_text() == "mine"
    # nor is what a person removed put back
    assert [path.name for path in folder.iterdir()] == ["AGENTS.md"]


def test_an_empty_folder_is_furnished(tmp_path: Path) -> None:
    folder = tmp_path / "amy"
    folder.mkdir()
    furnish_workspace(folder, agent="amy", name="Amy")
    assert (folder / "SOUL.md").exists()
