"""The page on the provider `claude` says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from manydesks.runner.providers.claude_cli.options import HELP, Options
from manydesks.runner.providers.claude_cli.provider import COMMANDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "providers.md"


def part(heading: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^### {re.escape(heading)}$\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no '{heading}'"
    return found[1]


def test_every_option_has_its_line() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", part("Options of `claude`"), re.MULTILINE)
    assert [name for name, _ in rows] == list(HELP)
    stated = {name: default.strip("`") for name, default in rows}
    plain = Options()
    assert stated["retries"] == str(plain.retries)
    assert stated["silence_seconds"] == f"{plain.silence_seconds:g}"
    assert stated["max_prompt_bytes"] == str(plain.max_prompt_bytes)
    assert stated["zone"] == f'"{plain.zone}"'


def test_every_command_is_named() -> None:
    assert set(re.findall(r"`/(\w+)`", part("A turn of `claude`"))) == COMMANDS
