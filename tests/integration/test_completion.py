"""What a shell offers, and the scripts that make it ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def offered(shell: Shell, line: str) -> list[str]:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("manydesks"))],
        env={
            **shell.environ,
            "_MANYDESKS_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [word.partition(",")[2] for word in done.stdout.split()]


def test_commands_agents_and_messages(office: OfficeProcess, shell: Shell) -> None:
    office.door.ask("agent_add", id="astrid")
    sent = office.ask("hello")["messages"][0]["messageId"]
    assert offered(shell, "manydesks re") == ["restart", "responses", "restore"]
    assert offered(shell, "manydesks chat a") == ["assistant", "astrid"]
    assert offered(shell, "manydesks send hello --to as") == ["assistant", "astrid"]
    assert offered(shell, "manydesks agent show ast") == ["astrid"]
    assert offered(shell, "manydesks queue resume ast") == ["astrid"]
    assert offered(shell, f"manydesks trace {sent[:10]}") == [sent]
    assert offered(shell, "manydesks logs c") == ["console"]
    assert "--timeout" in offered(shell, "manydesks send --t")


def test_silence_where_nothing_can_be_read(shell: Shell, home: Path) -> None:
    assert offered(shell, "manydesks chat ") == []
    home.mkdir()
    (home / "office.db").write_text("nonsense")
    assert offered(shell, "manydesks chat ") == []


def test_fish_shows_a_description_to_its_end(shell: Shell) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    folder = Path(sys.executable).parent
    asked = f"{shell.said('completion', 'fish')}\ncomplete -C 'manydesks dow'"
    environ = {**shell.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["fish", "-N", "-c", asked], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "down\tClose the office, letting running work finish.\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(shell: Shell, name: str) -> None:
    script = shell.said("completion", name)
    assert "_MANYDESKS_COMPLETE" in script
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    subprocess.run([name, "-n", "/dev/stdin"], input=script, text=True, check=True)
