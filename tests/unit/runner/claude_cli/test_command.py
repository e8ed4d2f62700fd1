from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manydesks.runner.providers.base import Endpoint, Station
from manydesks.runner.providers.claude_cli.command import Papers, command, environment, lay_out
from manydesks.runner.providers.claude_cli.options import Options

PAPERS = Papers(instructions=Path("/i"), servers=None)
ENDPOINT = Endpoint(kind="anthropic", socket=Path("/run/px"), prefix="/main")


def station(**changes: Any) -> Station:
    values: dict[str, Any] = {"agent": "a", "name": "A", "workspace": Path("/w"), "state": Path("/s")}
    return Station(**values | changes)


def line(station: Station, options: Options) -> list[str]:
    return command(Path("/c"), station, options, session="x", resume=False, papers=PAPERS)


@pytest.mark.parametrize(
    ("sandboxed", "permissions", "free"),
    [(True, None, True), (False, None, False), (False, "bypass", True), (True, "edits", False)],
)
def test_free_inside_a_sandbox_or_by_the_owners_word(sandboxed: bool, permissions: str | None, free: bool) -> None:
    desk, options = station(sandboxed=sandboxed), Options(permissions=permissions)
    assert ("--dangerously-skip-permissions" in line(desk, options)) is free
    assert ("IS_SANDBOX" in environment(desk, options, ENDPOINT, {})) is free


def test_only_a_few_of_our_own_variables_are_handed_on() -> None:
    ours = {"PATH": "/bin", "HOME": "/h", "ANTHROPIC_API_KEY": "sk-real", "AWS_SECRET": "x", "MANYDESKS_DESK": "d7"}
    environ = environment(station(), Options(retries=3), ENDPOINT, ours)
    assert environ["ANTHROPIC_API_KEY"] == "placeholder"
    assert environ["ANTHROPIC_UNIX_SOCKET"] == "/run/px"
    assert environ["ANTHROPIC_BASE_URL"] == "http://localhost/main"
    assert (environ["PATH"], environ["HOME"], environ["MANYDESKS_DESK"]) == ("/bin", "/h", "d7")
    assert environ["CLAUDE_CONFIG_DIR"] == "/s/claude"
    assert environ["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert "AWS_SECRET" not in environ
    assert "sk-real" not in environ.values()


def test_the_desks_tools_are_named_and_allowed(tmp_path: Path) -> None:
    desk, options = station(state=tmp_path, tools_url="http://127.0.0.1:1/secret/mcp"), Options(allowed_tools=("Read",))
    papers = lay_out(desk, "Be brief.")
    words = command(Path("/c"), desk, options, session="x", resume=True, papers=papers)
    assert words[words.index("--allowedTools") + 1] == "Read,mcp__manydesks"
    assert words[words.index("--mcp-config") + 1] == str(tmp_path / "servers.json")
    assert "secret" not in " ".join(words)
    assert "http://127.0.0.1:1/secret/mcp" in (tmp_path / "servers.json").read_text()
    assert (tmp_path / "servers.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "instructions.md").read_text() == "Be brief."
    assert "--mcp-config" not in line(station(), Options())


def test_what_the_agent_put_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    for name in ("instructions.md", ".instructions.md.new"):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    lay_out(station(state=tmp_path), "Be brief.")
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert (tmp_path / "instructions.md").read_text() == "Be brief."
