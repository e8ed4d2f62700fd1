from __future__ import annotations

import pytest

from manydesks.domain.command import command_word


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/compact", "compact"),
        ("  /compact keep the plan\n", "compact"),
        ("/compact\nkeep the plan", "compact"),
        ("/Compact", None),
        ("/compact.", None),
        ("/etc/hosts is wrong", None),
        ("/", None),
        ("//compact", None),
        ("use /compact", None),
        ("", None),
    ],
)
def test_only_an_exact_word_at_the_beginning_is_a_command(text: str, word: str | None) -> None:
    assert command_word(text) == word
