"""The line that shows what is being said: bounded, harmless, and gone before anything else is printed."""

from __future__ import annotations

import io

import pytest

from manydesks.cli.live import Live
from manydesks.cli.output import Output
from manydesks.cli.text import tail, width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_the_end_of_what_is_said_is_shown_and_wiped() -> None:
    stream = Terminal()
    live = Live(Output(stream, io.StringIO()), {})
    live.show({"amy": "word " * 100 + "last\x1b[2J"})
    (line,) = stream.getvalue().split("\r\x1b[K")[1:]
    assert line.startswith("amy: …")
    assert line.endswith("word last\\x1b[2J")
    assert width(line) < 40
    before = stream.getvalue()
    live.show({"amy": "word " * 100 + "last\x1b[2J"})
    assert stream.getvalue() == before
    live.wipe()
    live.wipe()
    assert stream.getvalue() == before + "\r\x1b[K"


def test_several_share_the_line() -> None:
    stream = Terminal()
    Live(Output(stream, io.StringIO()), {}).show({"bob": "b" * 99, "amy": "a" * 99})
    (line,) = stream.getvalue().split("\r\x1b[K")[1:]
    assert "amy: …a" in line
    assert "bob: …b" in line
    assert width(line) < 40


@pytest.mark.parametrize(
    ("stream", "json", "environ"),
    [(io.StringIO(), False, {}), (Terminal(), True, {}), (Terminal(), False, {"TERM": "dumb"})],
)
def test_there_is_none_where_it_would_be_in_the_way(stream: io.StringIO, json: bool, environ: dict[str, str]) -> None:
    live = Live(Output(stream, io.StringIO(), json=json), environ)
    live.show({"amy": "words"})
    live.wipe()
    assert (live.works, stream.getvalue()) == (False, "")


def test_tail() -> None:
    assert tail("abcdef", 6) == "abcdef"
    assert tail("abcdef", 4) == "…def"
    assert tail("ab漢字", 4) == "…字"
    assert tail("abc", 0) == ""
