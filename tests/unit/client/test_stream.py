"""Server-sent events, as bytes and as lines."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from manydesks.client.stream import Cut, Lines
from manydesks.client.values import Event


def events(lines: Lines, text: str) -> list[Event]:
    return [event for line in text.split("\n")[:-1] if (event := lines.take(line)) is not None]


def test_events_of_a_stream() -> None:
    text = (
        'retry: 1000\n\n: keep-alive\n\nid: 7\nevent: a\ndata: {"x": 1}\n\nevent: progress\ndata: {"y":\ndata: 2}\n\n'
    )
    assert [(event.seq, event.kind, dict(event.data)) for event in events(Lines(), text)] == [
        (7, "a", {"x": 1}),
        (None, "progress", {"y": 2}),
    ]


def test_a_block_with_an_id_alone_moves_the_place_and_is_no_event() -> None:
    lines = Lines()
    assert events(lines, "retry: 1000\n\n") == []
    assert lines.place is None
    assert events(lines, "id: 9\n") == []
    assert lines.place is None  # it may be cut off here
    assert events(lines, "\n") == []
    assert lines.place == 9
    assert events(lines, "event: progress\ndata: {}\n\n")
    assert lines.place == 9


def test_what_nobody_wants_is_not_parsed() -> None:
    assert events(Lines(live=False), "event: progress\ndata: {not even JSON\n\n") == []
    assert events(Lines(live=False), "id: 1\nevent: a\ndata: {}\n\n") == [Event(seq=1, kind="a", data={})]


@given(st.data())
def test_lines_end_where_they_end_however_the_bytes_come(data: st.DataObject) -> None:
    inside = st.text(st.sampled_from("aé\u0085\u2028\u2029\x0b\x0c\x1c\x1d\x1e😀"), max_size=8)
    lines = data.draw(st.lists(inside, max_size=8))
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=len(lines), max_size=len(lines)))
    # the two halves of one end are not two ends
    ends = ["\r\n" if end == "\r" and after == "" else end for end, after in zip(ends, [*lines[1:], "-"], strict=False)]
    whole = "".join(line + end for line, end in zip(lines, ends, strict=True)).encode() + b"not ended"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    cut = Cut()
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [line for piece in pieces for line in cut.lines(piece)] == lines


def test_words_that_break_lines_elsewhere() -> None:
    said = {"reason": "one\u2028two\u2029three\u0085four"}
    block = f"id: 3\nevent: run_failed\ndata: {json.dumps(said, ensure_ascii=False)}\n\n".encode()
    lines = Lines()
    assert [event.data for line in Cut().lines(block) if (event := lines.take(line))] == [said]
