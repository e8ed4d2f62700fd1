"""The last line of a terminal, while somebody waits: what the agents are saying just now."""

from __future__ import annotations

from collections.abc import Mapping

from manydesks.cli.output import Output
from manydesks.cli.text import one_line, tail

_CLEAR = "\r\x1b[K"


class Live:
    """One line that is written over and over, and wiped before anything else is printed. Nothing without a terminal."""

    def __init__(self, out: Output, environ: Mapping[str, str]) -> None:
        self._out = out
        #: whether there is a line that can be written over
        self.works = out.terminal and not out.json and environ.get("TERM", "") != "dumb"
        self._line = ""

    def show(self, words: Mapping[str, str]) -> None:
        """The end of what each is saying; of several, they share the line."""
        room = max(8, (self._out.columns - 1) // max(1, len(words)) - 3)
        line = "   ".join(_piece(agent, said, room) for agent, said in sorted(words.items()))
        if self.works and line != self._line:
            self._write(_CLEAR + tail(line, self._out.columns - 1))
            self._line = line

    def wipe(self) -> None:
        if self._line:
            self._write(_CLEAR)
            self._line = ""

    def _write(self, text: str) -> None:
        self._out.stdout.write(text)
        self._out.stdout.flush()


def _piece(agent: str, said: str, room: int) -> str:
    name = f"{one_line(agent)}: "
    return name + tail(one_line(said), max(4, room - len(name)))
