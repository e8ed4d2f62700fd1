"""The command line and the environment of `claude` at a desk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manydesks.runner.providers.base import Endpoint, Station
from manydesks.runner.providers.claude_cli.options import Options

#: the name under which claude knows the desk's tools: `mcp__manydesks__send_message`
SERVER = "manydesks"
TOOL_PREFIX = f"mcp__{SERVER}__"

#: of the runner's own environment; the mark of the desk is how a sandbox finds what came of it
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "MANYDESKS_DESK")

_SETTINGS = {
    # it is in the system prompt already, where it stays when the conversation is compacted
    "claudeMdExcludes": ["**/AGENTS.md"],
    # sessions live for months; the default forgets them after 30 days
    "cleanupPeriodDays": 3650,
}


def config_folder(state: Path) -> Path:
    """One for each session: two programs on one would fork its history."""
    return state / "claude"


def transcript(state: Path, session: str) -> Path | None:
    """The file in which claude keeps this session; None: it knows no such session."""
    return next(config_folder(state).glob(f"projects/*/{session}.jsonl"), None)


def bypasses(station: Station, options: Options) -> bool:
    """Whether claude may do as it likes: inside a sandbox, or where the owner says so."""
    return station.sandboxed if options.permissions is None else options.permissions == "bypass"


@dataclass(frozen=True, kw_only=True, slots=True)
class Papers:
    """Files that claude is started with."""

    instructions: Path
    #: None: the desk has no tools
    servers: Path | None


def lay_out(station: Station, instructions: str) -> Papers:
    """Write the files that claude is started with. Raises `OSError`."""
    papers = Papers(
        instructions=station.state / "instructions.md",
        servers=station.state / "servers.json" if station.tools_url is not None else None,
    )
    _write(papers.instructions, instructions)
    if papers.servers is not None:
        # the address is a secret of the desk: on the command line every user of the machine could read it
        _write(papers.servers, json.dumps({"mcpServers": {SERVER: {"type": "http", "url": station.tools_url}}}))
    return papers


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(text.encode(errors="replace"))
    fresh.replace(path)


def command(
    program: Path, station: Station, options: Options, *, session: str, resume: bool, papers: Papers
) -> list[str]:
    allowed = list(options.allowed_tools)
    line = [str(program), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    line += ["--include-partial-messages", "--replay-user-messages"]
    line += ["--resume" if resume else "--session-id", session]
    # `off`: what people change in the workspace counts from the next start, also in an old conversation
    line += ["--append-system-prompt-file", str(papers.instructions), "--system-prompt-snapshot", "off"]
    line += ["--settings", json.dumps(_SETTINGS), "--strict-mcp-config"]
    if station.model is not None:
        line += ["--model", station.model]
    if papers.servers is not None:
        line += ["--mcp-config", str(papers.servers)]
        allowed.append(f"mcp__{SERVER}")
    if bypasses(station, options):
        line.append("--dangerously-skip-permissions")
    else:
        line += ["--permission-mode", "acceptEdits"]
    if allowed:
        line += ["--allowedTools", ",".join(allowed)]
    return line


def environment(
    station: Station, options: Options, endpoint: Endpoint, ours: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """No key is in it: the placeholder only keeps claude from asking for a login."""
    environ = {name: ours[name] for name in _KEPT if name in ours}
    environ.setdefault("PATH", os.defpath)
    environ.setdefault("HOME", str(station.state))
    environ.setdefault("LANG", "C.UTF-8")
    environ |= {
        "CLAUDE_CONFIG_DIR": str(config_folder(station.state)),
        "ANTHROPIC_UNIX_SOCKET": str(endpoint.socket),
        "ANTHROPIC_BASE_URL": f"http://localhost{endpoint.prefix}",
        "ANTHROPIC_API_KEY": "placeholder",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": str(options.retries),
        # the desk's few tools are always in view; and a question to a person may stay open for ten minutes
        "ENABLE_TOOL_SEARCH": "false",
        "MCP_TOOL_TIMEOUT": "900000",
    }
    if bypasses(station, options):
        environ["IS_SANDBOX"] = "1"  # without it the program refuses this when it is run by root
    return environ
