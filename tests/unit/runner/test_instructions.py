from __future__ import annotations

import os
from pathlib import Path

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
