"""Strangers' words become text that can be stored and shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.cleaning import NAME, SENTENCE, clean, is_clean, sentence

ANY = st.text(st.characters(codec=None, categories=None), max_size=60)


@given(ANY)
def test_whatever_it_was_it_is_clean_text_now(text: str) -> None:
    for made in (clean(text, 20), sentence(text, 20)):
        assert is_clean(made, 20)
        made.encode()
        json.dumps(made, ensure_ascii=False).encode()
    assert "\n" not in sentence(text)


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=20))
def test_clean_text_is_as_it_was(text: str) -> None:
    assert clean(text, 20) == text


@pytest.mark.parametrize(
    ("given_", "made"),
    [
        ("moved away", "moved away"),
        ("two\n lines\t ", "two lines"),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
        ("a\0b\x1b[31m", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[31m"),
        ("x" * 10_000_000, "x" * (SENTENCE - 1) + "…"),
        ("😀" * SENTENCE, "😀" * SENTENCE),
    ],
)
def test_sentences(given_: str, made: str) -> None:
    assert sentence(given_) == made


def test_what_is_longer_than_allowed_is_not_clean() -> None:
    assert is_clean("x" * NAME, NAME)
    assert not is_clean("x" * (NAME + 1), NAME)
