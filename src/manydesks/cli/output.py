"""The two streams: results go to stdout, everything said about them to stderr.

Tables and trees are always made harmless, and cut only to the width of a terminal; elsewhere a long cell is shown in
full and moves the rest of its own row only. An answer's text is made harmless on
a terminal, and passed on untouched into a pipe or file: no terminal is fooled there, and a program wants what was
written. JSON is one value whose strings keep every character, the dangerous ones as `\\u` escapes.
"""

from __future__ import annotations

import json as _json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import click

from manydesks.cli.text import cut, harmless, one_line, width
from manydesks.domain.errors import ManyDesksError

# `ensure_ascii=False` leaves these as they are; they occur only inside strings, where a \u escape means the same.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

#: how the words of the state machines are painted, on a terminal
COLOURS = {
    **dict.fromkeys(("up", "completed", "acked", "ok"), "green"),
    **dict.fromkeys(("processing", "sending", "held", "unsure", "retried"), "yellow"),
    **dict.fromkeys(("down", "dead", "failed", "expired"), "red"),
}


#: where there is no terminal, a flexible column is not filled up beyond this for the sake of one long cell
PADDED = 40


class Column(NamedTuple):
    """A column of a table."""

    title: str
    #: numbers stand at the right
    right: bool = False
    #: may be cut when the terminal is too narrow; the longest give way first
    flexible: bool = False


def unwritten(error: OSError) -> str:
    """The sentence for a stdout that takes nothing more: the disk it goes to is full, or broken."""
    return f"The output cannot be written: {error.strerror or error}."


@contextmanager
def _told_apart() -> Iterator[None]:
    """Give a failure of stdout its own sentence while it is known to be stdout's; a closed pipe stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ManyDesksError(unwritten(error)) from error


def dumps(value: object) -> str:
    """One JSON value on one line; keys keep their order."""
    text = _json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


class Output:
    """Prints for one call; knows whether a person or a program reads."""

    def __init__(
        self, stdout: TextIO, stderr: TextIO, *, json: bool = False, environ: Mapping[str, str] | None = None
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        #: a program asked for JSON
        self.json = json
        #: stdout is a terminal
        self.terminal = stdout.isatty()
        #: what is written cannot be written over
        self.dumb = (environ or {}).get("TERM") == "dumb"
        # https://no-color.org: present and not empty
        self.colour = self.terminal and not (environ or {}).get("NO_COLOR")

    def line(self, text: str = "") -> None:
        """One line of our own, which must be harmless already."""
        self.write(text + "\n")

    def write(self, text: str) -> None:
        """As it is, which must be harmless already; for what writes to a file by itself, as `csv` does."""
        with _told_apart():
            self._write(self.stdout, text)

    def value(self, value: object) -> None:
        """The one JSON value."""
        self.line(dumps(value))

    def answer(self, text: str, *, agent: str | None = None) -> None:
        """An answer's text, with the agent's name before it when several answer."""
        shown = harmless(text) if self.terminal else text
        if agent is not None:
            shown = self.paint(f"{one_line(agent)}:", bold=True) + ("\n" if "\n" in shown else " ") + shown
        with _told_apart():
            self._write(self.stdout, shown if shown.endswith("\n") else shown + "\n")
            self.stdout.flush()

    def note(self, sentence: str) -> None:
        """Something worth knowing that is no failure, on stderr."""
        self._tell("notice", sentence)

    def error(self, *sentences: str) -> None:
        """Why it failed, on stderr: a line each, or one JSON object."""
        if self.json:
            self._tell("error", " ".join(sentences))
            return
        for sentence in sentences:
            self._tell("error", sentence)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """Aligned columns under their titles; a cell that is None is shown as `-`."""
        cells = [["-" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
        titles = [one_line(column.title.upper()) for column in columns]
        widths = [max(width(row[at]) for row in [titles, *cells]) for at in range(len(columns))]
        if self.terminal:
            widths = _fit(columns, widths, self.columns)
        room = list(widths)
        if not self.terminal:
            room = [min(most, PADDED) if c.flexible else most for c, most in zip(columns, widths, strict=True)]
        self.line(self.paint(_row(columns, widths, room, titles), bold=True))
        for row in cells:
            self.line(_row(columns, widths, room, row))

    @property
    def columns(self) -> int:
        """The terminal's width, or no limit where there is no terminal."""
        return shutil.get_terminal_size().columns if self.terminal else 1_000_000

    def status(self, word: str) -> str:
        """A state's word in its colour."""
        return self.paint(one_line(word), colour=COLOURS.get(word))

    def paint(self, text: str, *, colour: str | None = None, bold: bool = False) -> str:
        if not self.colour or not (colour or bold):
            return text
        return click.style(text, fg=colour, bold=bold or None)

    def flush(self) -> None:
        with _told_apart():
            self.stdout.flush()

    def _tell(self, key: str, sentence: str) -> None:
        sentence = " ".join(sentence.split())
        self.flush()  # so that both streams on one terminal keep their order
        self._write(self.stderr, (dumps({key: sentence}) if self.json else f"manydesks: {harmless(sentence)}") + "\n")
        self.stderr.flush()

    def _write(self, stream: TextIO, text: str) -> None:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        # A stream that cannot hold a character shows its number instead of failing half way.
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _row(columns: Sequence[Column], widths: Sequence[int], room: Sequence[int], cells: Sequence[str]) -> str:
    """Each cell cut to its column's width, and filled up to its room."""
    parts = []
    for column, most, least, cell in zip(columns, widths, room, cells, strict=True):
        shown = cut(cell, most)
        blank = " " * max(0, least - width(shown))
        parts.append(blank + shown if column.right else shown + blank)
    return "  ".join(parts).rstrip()


def _fit(columns: Sequence[Column], widths: Sequence[int], limit: int) -> list[int]:
    """Narrow the flexible columns, the widest first, until the row fits; none goes below 8 columns."""
    fitted = list(widths)
    excess = sum(fitted) + 2 * (len(fitted) - 1) - limit
    while excess > 0:
        at = max((i for i, column in enumerate(columns) if column.flexible), key=lambda i: fitted[i], default=None)
        if at is None or fitted[at] <= 8:
            break
        fitted[at] -= 1
        excess -= 1
    return fitted


def plain(value: Any) -> str:
    """A value of an event's data in one line: text as it is, the rest as JSON."""
    return one_line(value) if isinstance(value, str) else dumps(value)
