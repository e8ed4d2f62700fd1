from __future__ import annotations

import os
from pathlib import Path

import pytest

from manydesks.runner.instructions import MAX_ALL, MAX_FILE, Instructions, instructions


def told(workspace: Path) -> Instructions:
    return instructions(workspace, agent="coder", name="Coder")


def test_an_empty_or_missing_workspace_is_fine(tmp_path: Path) -> None:
    assert told(tmp_path).text.startswith("You are Coder, the agent `coder` in ManyDesks")
    assert told(tmp_path / "nowhere") == told(tmp_path)


def test_the_files_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Write tests.")
    (tmp_path / "SOUL.md").write_text("Be calm.")
    (tmp_path / "HEARTBEAT.md").write_text("Look at the mail.")
    review, deploy = tmp_path / "skills" / "review", tmp_path / "skills" / "deploy.md"
    review.mkdir(parents=True)
    (review / "SKILL.md").write_text("---\nname: review\ndescription: 'Reads a change with care.'\n---\nBody")
    deploy.write_text("# Puts it on the server\nBody")
    (tmp_path / "skills" / "notes.txt").write_text("no skill")
    (tmp_path / "skills" / "README.md").write_text("About skills, for people.")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "README.md").write_text("About memory, for people.")
    (tmp_path / "memory" / "MEMORY.md").write_text("Ada likes tea.")
    (tmp_path / "memory" / "people.md").write_text("Not shown.")
    text = told(tmp_path).text
    parts = ["Be calm.", "Write tests.", "deploy.md`: Puts it on the server", "SKILL.md`: Reads a change with care."]
    parts += ["Ada likes tea.", "memory/people.md"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    for absent in ("Look at the mail.", "no skill", "Not shown.", "Body", "README", "for people"):
        assert absent not in text


def test_the_version_changes_with_the_manual_and_not_with_memory(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("one")
    first = told(tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "MEMORY.md").write_text("new")
    second = told(tmp_path)
    assert (first.text == second.text, first.version == second.version) == (False, True)
    (tmp_path / "AGENTS.md").write_text("two")
    assert told(tmp_path).version != first.version


def test_long_files_are_cut_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("ä" * MAX_FILE)
    text = told(tmp_path).text
    assert f"(cut: AGENTS.md is longer than {MAX_FILE} bytes)" in text
    assert len(text.encode()) < MAX_FILE + 3_000


def test_all_of_them_have_a_limit(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name in ("AGENTS.md", "SOUL.md", "memory/MEMORY.md"):
        (tmp_path / name).write_text("x" * MAX_FILE)
    (tmp_path / "skills").mkdir()
    for number in range(150):
        (tmp_path / "skills" / f"s{number:03}.md").write_text("y" * 600)
    text = told(tmp_path).text
    assert len(text.encode()) <= MAX_ALL + 100
    assert "more than 100 skills" in text
    assert text.endswith(f"(cut: the instructions are longer than {MAX_ALL} bytes)")


def test_what_is_no_file_of_the_workspace_is_left_out(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "secret").write_text("SECRET")
    (workspace / "AGENTS.md").symlink_to(tmp_path / "secret")
    os.mkfifo(workspace / "SOUL.md")
    (workspace / "skills").symlink_to("skills")
    (workspace / "memory").write_text("not a folder")
    assert told(workspace) == told(tmp_path / "nowhere")


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"a\xff\0b")
    assert "a\ufffd\ufffdb" in told(tmp_path).text


def test_a_link_within_the_workspace_is_followed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "manual.md").write_text("Write tests.")
    (tmp_path / "AGENTS.md").symlink_to("docs/manual.md")
    (tmp_path / "skills").symlink_to("docs")
    text = told(tmp_path).text
    assert "# How you work (AGENTS.md)\n\nWrite tests." in text
    assert "- `skills/manual.md`: Write tests." in text


def test_not_even_the_names_of_a_folder_outside_are_told(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (outside / "id_rsa").write_text("SECRET")
    (outside / "skill.md").write_text("SECRET")
    (workspace / "memory").symlink_to(outside)
    (workspace / "skills").symlink_to(outside)
    assert told(workspace) == told(tmp_path / "nowhere")


@pytest.mark.parametrize("swapped", ["folder", "file"])
def test_a_link_that_is_put_there_after_the_look_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """The look at where a path leads and the opening are two moments; the swap happens between them."""
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    (workspace / "memory").mkdir(parents=True)
    outside.mkdir()
    for folder, text in ((workspace / "memory", "Ada likes tea."), (outside, "SECRET")):
        (folder / "MEMORY.md").write_text(text)
    assert "Ada likes tea." in told(workspace).text
    resolve = Path.resolve

    def look(path: Path, strict: bool = False) -> Path:
        real = resolve(path, strict)
        if path.name == "MEMORY.md":
            if swapped == "folder":
                (workspace / "memory").rename(workspace / "before")
                (workspace / "memory").symlink_to(outside)
            else:
                path.unlink()
                path.symlink_to(outside / "MEMORY.md")
        return real

    monkeypatch.setattr(Path, "resolve", look)
    text = told(workspace).text
    assert "SECRET" not in text
    assert "Ada likes tea." not in text
