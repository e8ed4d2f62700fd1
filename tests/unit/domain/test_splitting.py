"""Long texts in pieces: nothing is lost, nothing is too long, and markup stays whole."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manydesks.domain.address import code_spans
from manydesks.domain.splitting import LEAST, Piece, Unit, measure, split

UNITS: tuple[Unit, ...] = ("characters", "bytes", "utf16")
WORDS = st.sampled_from(
    ["word", "a", "longer-than-most", " ", "  ", "\n", "\n\n", ". ", "```\n", "```py\n", "\n```\n", "~~~\n", "`", "``",
     "> ", "- ", "[a](http://x.y/z)", "[", "](", "**bold text**", "_so it is_", "👩‍👩‍👧", "🇩🇪🇫🇷", "e\u0301", "ß",
     "日本語。", "\\", "\t", "\r\n", "~~", "<http://a.b>", "x" * 40]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=60).map("".join) | st.text(max_size=200)
LIMITS = st.integers(LEAST, 120)


def texts(pieces: tuple[Piece, ...]) -> list[str]:
    return [piece.text for piece in pieces]


@given(text=TEXTS, limit=LIMITS, unit=st.sampled_from(UNITS), markup=st.booleans())
@example(text="> ```py\n> x\n```\n" * 4, limit=16, unit="characters", markup=True)
@example(text="```\n" + "x" * 30 + "\n```", limit=16, unit="characters", markup=True)
def test_pieces_cover_the_text_and_fit(text: str, limit: int, unit: Unit, markup: bool) -> None:
    pieces = split(text, limit=limit, unit=unit, markup=markup)
    assert "".join(text[piece.start : piece.end] for piece in pieces) == text
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])][: len(pieces)]
    assert all(measure(piece.text, unit) <= limit for piece in pieces)
    assert all(piece.text for piece in pieces)
    assert all(piece.text.strip() for piece in pieces) or not text.strip()


@given(text=TEXTS, limit=LIMITS)
def test_what_is_sent_is_the_text_but_for_blanks_and_fences(text: str, limit: int) -> None:
    for piece in split(text, limit=limit):
        # a fence that is opened again stands on a line before the stretch, one that is closed on a line after it
        assert text[piece.start : piece.end].strip() in piece.text


@given(text=TEXTS, limit=LIMITS, unit=st.sampled_from(UNITS))
def test_whoever_was_cut_off_goes_on_where_they_were(text: str, limit: int, unit: Unit) -> None:
    pieces = split(text, limit=limit, unit=unit)
    for number, piece in enumerate(pieces, 1):
        assert split(text, limit=limit, unit=unit, start=piece.end) == pieces[number:]


@given(text=TEXTS)
def test_a_text_that_fits_is_one_piece(text: str) -> None:
    pieces = split(text, limit=100_000)
    assert texts(pieces) == ([text.strip() or text[:1]] if text else [])


LINES = st.lists(
    st.sampled_from(["alpha beta", "x = 1", "", "    indented", "a longer line of code"]), min_size=1, max_size=30
)


@given(before=LINES, code=LINES, after=LINES, limit=st.integers(48, 200))
def test_code_stays_code_in_every_piece(before: list[str], code: list[str], after: list[str], limit: int) -> None:
    text = "\n".join([*before, "```python", *code, "```", *after])
    for piece in split(text, limit=limit):
        spans = code_spans(piece.text)
        marks = sum(line.startswith("```") for line in piece.text.split("\n"))
        assert marks == 2 * len(spans), piece.text
        for line in piece.text.split("\n"):
            if line == "x = 1" and "x = 1" not in before + after:
                at = piece.text.index("x = 1")
                assert any(start < at < end for start, end in spans), piece.text


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 20, []),
        ("   ", 20, [" "]),
        ("hello", 20, ["hello"]),
        ("one two three four five", 16, ["one two three", "four five"]),
        ("First part here.\n\nSecond part.", 20, ["First part here.", "Second part."]),
        ("A line of text\nand another one", 20, ["A line of text", "and another one"]),
        ("It is so. And then came more", 17, ["It is so.", "And then came", "more"]),
        ("So. And then came some more", 20, ["So. And then came", "some more"]),
        # a link, code and emphasised words stay whole
        ("see the [manual](http://x.y/z) for it", 28, ["see the", "[manual](http://x.y/z) for it"[:26], "it"]),
        ("run the `make all tests` now", 20, ["run the", "`make all tests` now"]),
        ("this is **very much so** here", 20, ["this is", "**very much so**", "here"]),
        # unless they cannot
        ("`" + "a b " * 6 + "`", 16, ["`a b a b a b a b", "a b a b `"]),
        ("x" * 40, 16, ["x" * 16, "x" * 16, "x" * 8]),
        # fences are closed and opened again, with their language
        ("```py\na = 1\nb = 2\nc = 3\n```", 24, ["```py\na = 1\nb = 2\n```", "```py\nc = 3\n```"]),
        ("say:\n```\n" + "y" * 20 + "\n```", 24, ["say:", "```\n" + "y" * 16 + "\n```", "```\nyyyy\n```"]),
        ("Text before it.\n```\nabcdef\n```\nafter", 24, ["Text before it.", "```\nabcdef\n```\nafter"]),
        ("> ~~~\n> one\n> two\n> three\n> ~~~", 28, ["> ~~~\n> one\n> two\n> ~~~", "> ~~~\n> three\n> ~~~"]),
    ],
)
def test_where_it_breaks(text: str, limit: int, expected: list[str]) -> None:
    assert texts(split(text, limit=limit)) == expected


def test_characters_stay_whole() -> None:
    family, flag, accent = "👩‍👩‍👧", "🇩🇪", "e\u0301"
    for whole in (family, flag, accent):
        for piece in split(whole * 40, limit=16):
            assert piece.text.replace(whole, "") == ""


def test_units() -> None:
    assert (measure("aß😀"), measure("aß😀", "bytes"), measure("aß😀", "utf16")) == (3, 7, 4)
    assert [len(piece.text) for piece in split("😀" * 20, limit=16, unit="utf16")] == [8, 8, 4]
    assert [len(piece.text) for piece in split("😀" * 20, limit=16, unit="bytes")] == [4, 4, 4, 4, 4]


def test_plain_text_has_no_fences() -> None:
    assert texts(split("```py\na = 1\nb = 2\n```", limit=16, markup=False)) == ["```py\na = 1", "b = 2\n```"]


FLOODS = [
    "`",
    "[",
    "[a](",
    "```\n",
    "**",
    "_a",
    "\n",
    " ",
    "x",
    "🇩",
    "e\u0301",
    "\u0301",
    "a b ",
    "~~~x\ny\n",
    "<",
    "- ",
]


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("unit", UNITS)
def test_it_takes_linear_time(flood: str, unit: Unit) -> None:
    def seconds(size: int) -> float:
        text = flood * (size // len(flood))
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            split(text, limit=4_000, unit=unit)
            best = min(best, time.process_time() - began)
        return best

    small, large = seconds(20_000), seconds(160_000)
    # quadratic would be 64 times as long
    assert large < 25 * small + 0.05, (small, large)
