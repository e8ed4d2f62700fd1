"""What is printed, and that nothing a stranger wrote can drive the terminal."""

from __future__ import annotations

import csv
import errno
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.cli.output import Column, Output, dumps
from manydesks.cli.text import cut, harmless, one_line, width
from manydesks.domain.errors import ManyDesksError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(terminal: bool, act, **options) -> str:
    stream = Terminal() if terminal else io.StringIO()
    act(Output(stream, io.StringIO(), **options))
    return stream.getvalue()


EVIL = "ok\x1b]0;pwned\x07\x1b[2J\x9b31m\rover\u202etxt"


class TestAnswer:
    def test_on_a_terminal_it_is_harmless(self):
        shown = printed(True, lambda out: out.answer(EVIL))
        assert shown == "ok\\x1b]0;pwned\\x07\\x1b[2J\\x9b31m\\x0dover\\u202etxt\n"

    def test_in_a_pipe_it_is_what_was_written(self):
        assert printed(False, lambda out: out.answer(EVIL)) == EVIL + "\n"

    def test_no_second_line_end(self):
        assert printed(False, lambda out: out.answer("a\n")) == "a\n"

    def test_the_agents_name(self):
        assert printed(False, lambda out: out.answer("a", agent="x\x1b")) == "x\\x1b: a\n"


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_writes_by_itself_is_told_that_the_output_is_full():
    with pytest.raises(ManyDesksError, match=r"^The output cannot be written: No space left on device\.$"):
        csv.writer(Output(Full(), io.StringIO())).writerow([1])


class TestColour:
    def test_on_a_terminal(self):
        assert printed(True, lambda out: out.line(out.status("dead"))) == "\x1b[31mdead\x1b[0m\n"

    @pytest.mark.parametrize(("terminal", "environ"), [(False, {}), (True, {"NO_COLOR": "1"})])
    def test_elsewhere_not(self, terminal, environ):
        assert printed(terminal, lambda out: out.line(out.status("dead")), environ=environ) == "dead\n"

    def test_an_empty_no_color_is_not_set(self):
        assert "\x1b" in printed(True, lambda out: out.line(out.status("dead")), environ={"NO_COLOR": ""})


class TestTable:
    COLUMNS = (Column("id"), Column("n", right=True), Column("text", flexible=True))

    def show(self, terminal: bool, *rows) -> list[str]:
        return printed(terminal, lambda out: out.table(self.COLUMNS, rows), environ={"NO_COLOR": "1"}).splitlines()

    def test_aligned(self):
        assert self.show(False, ("a", 1, "x"), ("bbb", 1000, None)) == [
            "ID      N  TEXT",
            "a       1  x",
            "bbb  1000  -",
        ]

    def test_wide_and_combining_characters_keep_the_columns(self):
        lines = self.show(False, ("日本", 1, "x"), ("e\u0301", 2, "x"))
        assert [width(line) for line in lines[1:]] == [10, 10]

    def test_a_cell_is_one_harmless_line(self):
        assert self.show(False, ("a", 1, "x\n\ny\x1b[0m"))[1] == "a   1  x y\\x1b[0m"

    def test_a_title_too(self):
        asked = (Column("x\x1b[31m\ny"),)
        assert printed(True, lambda out: out.table(asked, []), environ={"NO_COLOR": "1"}) == "X\\x1b[31M Y\n"

    def test_cut_to_the_terminal(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "30")
        lines = self.show(True, ("a", 1, "word " * 20))
        assert max(map(width, lines)) == 30
        assert lines[1].endswith("…")

    def test_not_cut_in_a_pipe(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "30")
        assert "word word" in self.show(False, ("a", 1, "word " * 20))[1]
        assert len(self.show(False, ("a", 1, "x" * 200))[1]) > 200

    def test_a_terminal_too_narrow_for_anything(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "5")
        assert "word" in self.show(True, ("a", 1, "word " * 20))[1]


@given(st.text())
def test_harmless_text_holds_no_control_character(text):
    import unicodedata

    left = {character for character in harmless(text) if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")}
    assert left <= {"\t", "\n"}
    assert "\n" not in one_line(text)


@given(st.text(), st.integers(0, 30))
def test_cut_text_fits(text, columns):
    shown = cut(one_line(text), columns)
    assert width(shown) <= columns
    if width(one_line(text)) <= columns:
        assert shown == one_line(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_says_the_same_without_control_characters(value):
    text = dumps(value)
    assert json.loads(text) == value
    assert harmless(text) == text
    text.encode()


def test_json_keeps_the_order_and_the_letters():
    assert dumps({"b": "ä", "a": 1}) == '{"b": "ä", "a": 1}'


def test_a_stream_that_cannot_hold_a_character():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Output(stream, io.StringIO()).line("a → b")
    stream.flush()
    assert raw.getvalue() == b"a \\u2192 b\n"


def test_notes_and_errors_go_to_stderr():
    out, err = io.StringIO(), io.StringIO()
    Output(out, err).note("so it is")
    Output(out, err, json=True).error("one.", "two.")
    assert out.getvalue() == ""
    assert err.getvalue() == 'manydesks: so it is\n{"error": "one. two."}\n'


def test_one_long_cell_does_not_widen_every_row_where_there_is_no_terminal():
    columns = (Column("id"), Column("reason", flexible=True), Column("text", flexible=True))
    rows = [("a", "short", "x"), ("b", "long " * 60, "y")]
    head, short, long = printed(False, lambda out: out.table(columns, rows)).splitlines()
    assert len(head) < 60
    assert len(short) < 60
    assert long == f"b   {('long ' * 60).strip()}  y"  # nothing is cut: a program may look for it
