"""Models within reach: found, never used."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.office.ways import Way, claude_login, ways
from manydesks.settings.model import SandboxSettings, Settings

#: no sandbox is tried
SETTINGS = Settings(sandbox=SandboxSettings(kind="none"))


@pytest.fixture(autouse=True)
def without_claude(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has none, neither on the path nor in a package."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("manydesks.runner.program.BUNDLED", {})


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


async def found(secrets: dict[str, str], **environ: str) -> list[tuple[str, str | None, bool]]:
    return [
        (way.provider, way.variable, way.wants_key)
        for way in await ways(SETTINGS, secrets, {"HOME": "/nowhere", **environ})
    ]


async def test_nothing_is_found_on_a_bare_machine() -> None:
    assert await found({}) == []
    assert await found({}, ANTHROPIC_API_KEY=" ") == []


async def test_keys_the_offices_own_first() -> None:
    assert await found({}, OPENAI_API_KEY="k") == [("openai", "OPENAI_API_KEY", False)]
    both = await found({"openai_api_key": "k"}, ANTHROPIC_API_KEY="k", OPENAI_API_KEY="other")
    assert both == [("openai", None, False), ("anthropic", "ANTHROPIC_API_KEY", False)]


async def test_claude_where_it_can_run(claude: Path, tmp_path: Path) -> None:
    assert await found({"anthropic_api_key": "k"}) == [("claude", None, False)]
    assert await found({"openai_api_key": "k"}) == [("openai", None, False)]
    assert await found({}) == []
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert await found({}, HOME=str(tmp_path)) == [("claude", None, True)]
    # a key is enough, and better
    assert await found({"anthropic_api_key": "k"}, HOME=str(tmp_path)) == [("claude", None, False)]


def test_a_login_without_the_program_is_none(tmp_path: Path) -> None:
    (tmp_path / ".credentials.json").write_text("{}")
    assert claude_login({"CLAUDE_CONFIG_DIR": str(tmp_path)}) is None


def test_the_commands_that_switch() -> None:
    key = Way(found="x", provider="openai", secret="openai_api_key", variable="OPENAI_API_KEY")
    assert key.how() == (
        "`manydesks secret set openai_api_key` and `manydesks agent edit assistant --provider openai --model MODEL`"
    )
    held = Way(found="x", provider="claude", secret="anthropic_api_key", variable=None)
    assert held.how() == "`manydesks agent edit assistant --provider claude`"
