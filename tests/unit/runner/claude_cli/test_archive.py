from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manydesks.runner.providers.claude_cli.archive import archive

NOW = 1_714_548_600_000  # 2024-05-01 07:30:00 UTC


def written(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def said(type: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": type, "message": {"content": content}, "timestamp": "2024-05-01T07:00:00Z", **more}


def test_what_was_said_since_the_last_shortening(tmp_path: Path) -> None:
    transcript = written(
        tmp_path / "t.jsonl",
        said("user", "long ago"),
        {"type": "system", "subtype": "compact_boundary"},
        said("user", "hello"),
        said("user", "a reminder", isMeta=True),
        said(
            "assistant", [{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "Bash", "input": {"c": 1}}]
        ),
        said("user", [{"type": "tool_result", "content": "found"}]),
        {"type": "attachment"},
        "[1]",
        '{"type": "assi',
    )
    path = archive(transcript, tmp_path, session="0123456789", now=NOW)
    assert path == tmp_path / "memory" / "conversations" / "2024-05-01-073000-01234567.md"
    text = path.read_text()
    assert text.startswith(
        "# Conversation until 2024-05-01 07:30 UTC\n\n## To the agent, 2024-05-01T07:00:00Z\n\nhello\n"
    )
    assert 'I look.\n\nTool Bash: {"c": 1}' in text
    assert "Result: found" in text
    for absent in ("long ago", "a reminder"):
        assert absent not in text
    assert archive(transcript, tmp_path, session="0123456789", now=NOW) == path


def test_nothing_said_is_no_file(tmp_path: Path) -> None:
    assert archive(written(tmp_path / "t.jsonl"), tmp_path, session="s", now=NOW) is None
    assert not (tmp_path / "memory").exists()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("not a folder")
    with pytest.raises(OSError, match="memory"):
        archive(written(tmp_path / "t.jsonl", said("user", "x")), tmp_path, session="s", now=NOW)
