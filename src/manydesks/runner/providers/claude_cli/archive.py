"""Keeps a conversation readable before `claude` shortens it: as Markdown, in the agent's own memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: below the workspace; searched by the agent when it wants to, never read to it by itself
FOLDER = Path("memory", "conversations")
MAX_BYTES = 8 << 20
_MAX_PIECE = 20_000


def archive(transcript: Path, workspace: Path, *, session: str, now: int) -> Path | None:
    """Write what was said since the last shortening into a new file. None: there was nothing. Raises `OSError`."""
    pieces = list(_since_last(transcript))
    if not pieces:
        return None
    moment = datetime.fromtimestamp(now / 1000, UTC)
    text = "\n\n".join([f"# Conversation until {moment:%Y-%m-%d %H:%M} UTC", *pieces]) + "\n"
    folder = workspace / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{moment:%Y-%m-%d-%H%M%S}-{session[:8]}.md"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path  # this one was told twice
    with os.fdopen(file, "wb") as opened:
        opened.write(text.encode(errors="replace")[-MAX_BYTES:])
    return path


def _since_last(transcript: Path) -> Iterator[str]:
    pieces: list[str] = []
    with transcript.open(encoding="utf-8", errors="replace") as lines:
        for raw in lines:
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue  # the last line of a process that was killed
            if not isinstance(line, dict):
                continue
            if line.get("subtype") == "compact_boundary":
                pieces.clear()
            elif line.get("type") in ("user", "assistant") and line.get("isMeta") is not True:
                piece = _piece(line)
                if piece:
                    pieces.append(piece)
    yield from pieces


def _piece(line: Mapping[str, Any]) -> str:
    message = line.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    parts = [part for block in blocks if isinstance(block, Mapping) for part in [_part(block)] if part]
    if not parts:
        return ""
    who = "Agent" if line["type"] == "assistant" else "To the agent"
    return "\n\n".join([f"## {who}, {line.get('timestamp', 'some time')}", *parts])


def _part(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return _short(block.get("text"))
        case "tool_use":
            return f"Tool {block.get('name')}: {_short(json.dumps(block.get('input'), ensure_ascii=False))}"
        case "tool_result":
            content = block.get("content")
            return f"Result: {_short(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))}"
        case _:
            return ""


def _short(text: Any) -> str:
    text = text if isinstance(text, str) else ""
    return text if len(text) <= _MAX_PIECE else f"{text[:_MAX_PIECE]}… ({len(text)} characters in all)"
