"""The example office."""

from __future__ import annotations

import os
from pathlib import Path

from manydesks.testing.shell import Shell


def test_the_example_office(shell: Shell, home: Path) -> None:
    said = shell.value("up", "--demo", "--detach")
    assert sorted(answer["agent"] for answer in said["responses"]) == ["coder", "reviewer", "tester"]
    assert {row["id"] for row in shell.value("agent", "list")} >= {"lead", "coder", "reviewer", "tester", "writer"}
    assert "An office already runs" in shell.refusal("up", "--demo", "--detach")
    shell.said("down")
    again = shell.said("up", "--demo", "--detach")
    assert "\ncoder:\n" in again
    assert f"manydesks --home {home} trace console_" in again


def test_the_example_office_in_the_foreground_shows_its_answers(shell: Shell) -> None:
    process = shell.begin("up", "--demo")
    try:
        assert process.stdout is not None
        seen = ""
        while "Go on in another terminal" not in seen:
            line = process.stdout.readline()
            assert line, seen
            seen += line
        for agent in ("coder", "reviewer", "tester"):
            assert f"\n{agent}:\n1. **Status:**" in seen
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_example_office_keeps_away_from_a_persons_own(home: Path, tmp_path: Path, shell: Shell) -> None:
    shell.said("agent", "add", "mine")
    assert "has agents or teams of its own (mine)" in shell.refusal("up", "--demo", "--detach")
    elsewhere = Shell(home, {**os.environ, "HOME": str(home.parent)})
    del elsewhere.environ["MANYDESKS_HOME"]
    try:
        said = elsewhere.value("up", "--demo", "--detach")
        assert said["log"] == str(home.parent / ".manydesks-demo" / "logs" / "host.log")
    finally:
        elsewhere.run("--home", str(home.parent / ".manydesks-demo"), "down")
