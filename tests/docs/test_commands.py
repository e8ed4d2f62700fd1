"""Every command is named on a page for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from manydesks.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]


def commands_of(group: click.Group, words: tuple[str, ...]) -> Iterator[str]:
    """`manydesks agent add`, and so on, down to the last word."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, (*words, name))
        else:
            yield " ".join((*words, name))


def test_every_command_is_documented(subtests: pytest.Subtests) -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    commands = list(commands_of(cli, ("manydesks",)))
    assert "manydesks up" in commands
    for command in commands:
        with subtests.test(command):
            assert command in text
