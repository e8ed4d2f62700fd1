from __future__ import annotations

from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.runner.providers.claude_cli.options import HELP, Options, read_options


def test_all_options_can_be_given() -> None:
    given: dict[str, Any] = {
        "program": "/opt/claude",
        "warm": False,
        "permissions": "edits",
        "allowed_tools": ["Bash(git *)"],
        "retries": 0,
        "silence_seconds": 5,
        "max_prompt_bytes": 1000,
        "zone": "Europe/Berlin",
    }
    assert set(given) == set(HELP)
    assert read_options(given) == Options(**{**given, "allowed_tools": ("Bash(git *)",)})
    assert read_options({}) == Options()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("colour", "red", "claude has no option 'colour'; it has program, warm"),
        ("program", "", "a path"),
        ("warm", "yes", "true or false"),
        ("permissions", "all", "bypass or edits"),
        ("allowed_tools", "Bash", "a list"),
        ("allowed_tools", ["--dangerously-skip-permissions"], "a list"),
        ("retries", 11, "0 to 10"),
        ("retries", True, "0 to 10"),
        ("silence_seconds", 0, "above 0"),
        ("silence_seconds", float("nan"), "above 0"),
        ("max_prompt_bytes", 0, "from 1"),
        ("zone", "Mars/Olympus", "time zone"),
        ("zone", "../../etc/passwd", "time zone"),
    ],
)
def test_what_is_not_allowed_is_said(name: str, value: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_options({name: value})
