"""`[send_file: path]`: what is a tag, and what is text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.filetag import file_tags


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("nothing", []),
        ("[send_file: a.txt]", ["a.txt"]),
        ("see [send_file:a.txt] and [SEND_FILE:  b/c d.pdf ]", ["a.txt", "b/c d.pdf"]),
        ("[@coder: take [send_file: a.txt]]", ["a.txt"]),
        ("`[send_file: a.txt]`", []),
        ("```\n[send_file: a.txt]\n```\n[send_file: b.txt]", ["b.txt"]),
        (r"\[send_file: a.txt]", [None]),
        (r"\\[send_file: a.txt]", ["a.txt"]),
        ("[send_file: a\nb]", []),
        ("[send_file: a[1].txt]", []),
        ("[send_file: ]", [""]),
        ("[send_file a.txt]", []),
    ],
)
def test_examples(text: str, paths: list[str | None]) -> None:
    assert [tag.path for tag in file_tags(text)] == paths


@given(st.lists(st.sampled_from(["[send_file: a]", "[send_file:", "]", "`", "\\", "```\n", "x", "\n"]), max_size=30))
def test_tags_stand_where_they_say_in_order(parts: list[str]) -> None:
    text, done = "".join(parts), 0
    for tag in file_tags(text):
        assert done <= tag.start < tag.end <= len(text)
        done = tag.end
        said = text[tag.start : tag.end]
        assert said == "\\" if tag.path is None else said.startswith("[send_file:") and said.endswith("]")


@pytest.mark.parametrize("flood", ["[send_file:", "[send_file: a]", "\\", "`[send_file: a]"])
def test_it_takes_linear_time(flood: str) -> None:
    began = time.process_time()
    file_tags(flood * (1_000_000 // len(flood)))
    assert time.process_time() - began < 5
