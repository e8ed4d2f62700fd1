"""Lines that a person types, or that come through a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable

from manydesks.cli.body import STDIN_BYTES
from manydesks.domain.errors import BadInput


class Keyboard:
    """Standard input, line by line. At a terminal with editing, and what was typed before by the arrow keys."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal

    def remember(self, lines: Iterable[str]) -> None:
        """What the arrow keys bring back, the oldest first."""
        if not self.terminal:
            return
        with contextlib.suppress(ImportError):  # an interpreter may have been built without it
            import readline

            for line in lines:
                # one entry is one line: what else was in it is not typed again by accident
                if line.isprintable():
                    readline.add_history(line)

    def line(self, prompt: str) -> str | None:
        """The next line without its end, None after the last. A prompt is for a person only."""
        if self.terminal:
            try:
                return input(prompt)
            except EOFError:
                sys.stdout.write("\n")
                return None
        if sys.stdin is None:  # closed: as at its end
            return None
        given = sys.stdin.buffer.readline(STDIN_BYTES)
        if not given:
            return None
        if len(given) == STDIN_BYTES:
            raise BadInput(f"A line on standard input has more than {STDIN_BYTES // 1024 // 1024} MiB.")
        try:
            return given.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BadInput("The text on standard input is not UTF-8.") from error
