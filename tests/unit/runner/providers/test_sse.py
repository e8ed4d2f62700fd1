from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.runner.providers.http_api import sse
from manydesks.runner.providers.http_api.sse import Events, LineTooLong


def read(data: bytes, cuts: list[int]) -> list[str]:
    """The events of these bytes, fed in pieces."""
    events = Events()
    found: list[str] = []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        found += events.feed(data[begin:end])
    return found


WORDS = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))


@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 10_000), max_size=30),
    st.booleans(),
)
def test_events_are_the_same_however_the_bytes_are_cut(
    events: list[list[str]], end: str, cuts: list[int], mark: bool
) -> None:
    lines = [line for event in events for line in ("event: x", *(f"data: {part}" for part in event), ": hi", "")]
    data = (b"\xef\xbb\xbf" if mark else b"") + "".join(line + end for line in lines).encode()
    # a mark at the beginning of the stream belongs to the stream; anywhere else it is text
    assert read(data, cuts) == ["\n".join(event) for event in events]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=20))
def test_any_bytes_are_read_the_same_in_one_piece_and_in_many(data: bytes, cuts: list[int]) -> None:
    assert read(data, cuts) == read(data, [])


def test_details() -> None:
    assert read(b"data:a\n\ndata: b\n\n", []) == ["a", "b"]
    assert read(b"data:  a\n\n", []) == [" a"]
    assert read(b"data\n\n", []) == [""]
    assert read(b"id: 1\nretry: 5\n\n", []) == []
    assert read(b"data: no end\n", []) == []
    assert read(b"data: \xff\n\n", []) == ["�"]


def test_a_line_or_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_LINE", 100)
    with pytest.raises(LineTooLong):
        read(b"data: " + b"x" * 200, [50, 120])
    with pytest.raises(LineTooLong):
        read(b"data: 0123456789\n" * 20, [])
    assert len(read(b"data: 0123456789\n\n" * 20, [])) == 20
