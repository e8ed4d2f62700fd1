"""The key, blotted out of whatever passes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.proxy.mask import Mask

KEY = "aab-aab-aac"  # its end begins it again: the hard case for whoever holds back


@given(st.lists(st.text("ab-c", max_size=6), max_size=40))
def test_pieces_and_the_whole_say_the_same(pieces: list[str]) -> None:
    mask = Mask(KEY)
    passed = b"".join([mask.feed(piece.encode()) for piece in pieces] + [mask.finish()])
    assert passed == Mask(KEY).whole("".join(pieces).encode())
    assert len(passed) == len("".join(pieces))


@given(st.lists(st.integers(0, len(KEY)), max_size=4), st.text("ab-c", max_size=8), st.text("ab-c", max_size=8))
def test_the_key_is_found_in_any_pieces(cuts: list[int], before: str, after: str) -> None:
    text = (before + KEY + after).encode()
    places = sorted({0, len(text), *(len(before) + cut for cut in cuts)})
    mask = Mask(KEY)
    passed = b"".join(mask.feed(text[a:b]) for a, b in pairwise(places)) + mask.finish()
    assert KEY.encode() not in passed


def test_only_what_may_be_the_key_is_held_back() -> None:
    mask = Mask(KEY)
    assert mask.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert mask.feed(b"x aab-") == b"x "
    assert mask.feed(b"x") == b"aab-x"
    assert mask.finish() == b""


@pytest.mark.parametrize("form", ['sk-"quoted"/ü+1', 'sk-\\"quoted\\"/\\u00fc+1', "sk-%22quoted%22%2F%C3%BC%2B1"])
def test_the_key_in_json_and_in_urls(form: str) -> None:
    assert Mask('sk-"quoted"/ü+1').whole(f"<{form}>".encode()) == b"<" + b"*" * len(form.encode()) + b">"


@pytest.mark.parametrize("key", [None, "short"])
def test_nothing_to_hide(key: str | None) -> None:
    mask = Mask(key)
    assert mask.feed(b"short") + mask.finish() == b"short"
    assert mask.whole(b"short") == b"short"
