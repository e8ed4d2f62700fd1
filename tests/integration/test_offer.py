"""A key within reach of an office whose assistant only rehearses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.testing.shell import Shell
from manydesks.testing.terminal import Terminal


@pytest.fixture
def keyed(shell: Shell, home: Path, tmp_path: Path) -> Shell:
    # a machine without claude, so that the plain API is offered
    environ = {**shell.environ, "OPENAI_API_KEY": "sk-from-the-shell", "HOME": str(tmp_path)}
    return Shell(home, environ)


@pytest.fixture
def sit(keyed: Shell) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def sit(*arguments: str) -> Terminal:
        made.append(Terminal(*arguments, environ=keyed.environ))
        return made[-1]

    yield sit
    for terminal in made:
        terminal.close()


def test_without_a_terminal_it_is_only_said(keyed: Shell, home: Path) -> None:
    done = keyed.run("up", "--detach")
    assert done.returncode == 0, done.stderr
    assert "A key for OpenAI is in the variable OPENAI_API_KEY; to use it: `manydesks secret set" in done.stderr
    assert keyed.value("agent", "show", "assistant")["provider"] == "rehearsal"
    assert not (home / "secrets.toml").exists()
    assert not (home / "settings.toml").exists()


def test_no_is_remembered(keyed: Shell, home: Path, sit: Callable[..., Terminal]) -> None:
    terminal = sit("up", "--detach")
    terminal.until("[y/N]: ")
    terminal.type("n\n")
    assert terminal.end() == 0
    assert not (home / "secrets.toml").exists()
    assert keyed.value("agent", "show", "assistant")["provider"] == "rehearsal"
    keyed.said("down")
    again = sit("up", "--detach")
    assert again.end() == 0
    assert "OPENAI" not in again.shown


def test_yes_switches(keyed: Shell, home: Path, sit: Callable[..., Terminal]) -> None:
    terminal = sit("up", "--detach")
    terminal.until("[y/N]: ")
    terminal.type("y\n")
    terminal.until("Which model")
    terminal.type("some-model\n")
    assert terminal.end() == 0
    assert "sk-from-the-shell" not in terminal.shown
    found = keyed.value("agent", "show", "assistant")
    assert (found["provider"], found["model"]) == ("openai", "some-model")
    assert (home / "secrets.toml").stat().st_mode & 0o777 == 0o600
    assert keyed.value("secret", "list") == ["openai_api_key"]
