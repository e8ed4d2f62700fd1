"""A person at a real terminal: the `manydesks` command behind a pseudo-terminal, to be read and typed at."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

SECONDS = 30.0


class Terminal:
    """One call of the command. Everything it shows is kept in `shown`, line ends as the terminal has them."""

    def __init__(self, *arguments: str, environ: Mapping[str, str]) -> None:
        ours, theirs = pty.openpty()
        try:
            self._process = subprocess.Popen(
                [str(Path(sys.executable).with_name("manydesks")), *arguments],
                env={**environ, "TERM": "xterm", "COLUMNS": "200"},
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        finally:
            os.close(theirs)
        self._line = ours
        self._seen = 0
        self.shown = ""

    def until(self, words: str, seconds: float = SECONDS) -> str:
        """Wait until these words are shown, after those that were waited for before; what came up to them."""
        deadline = time.monotonic() + seconds
        while (at := self.shown.find(words, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{words!r} was not shown: {self.shown[self._seen :]!r}")
        before, self._seen = self.shown[self._seen : at], at + len(words)
        return before

    def type(self, keys: str) -> None:
        os.write(self._line, keys.encode())

    def interrupt(self, words: str) -> str:
        """Ctrl-C at a prompt, pressed again as a person would, until these words are shown.

        Between showing the prompt and waiting for keys Python's `input` notes a signal and goes on to wait: such a
        Ctrl-C counts with the next key only. Nothing outside can see on which side of that moment it came.
        """
        deadline = time.monotonic() + SECONDS
        while True:
            self.type("\x03")
            try:
                return self.until(words, SECONDS / 6)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def end(self, seconds: float = SECONDS) -> int:
        """The exit code, once it has ended by itself."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self._process.wait(max(0.1, deadline - time.monotonic()))

    def close(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._line)

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._line], [], [], left)[0]:
            return False
        try:
            some = os.read(self._line, 1 << 16)
        except OSError:  # Linux says so when the other side is gone
            return False
        self.shown += some.decode(errors="replace")
        return bool(some)


def _take_terminal() -> None:
    """In the child: the terminal becomes its own, so that a typed Ctrl-C is its SIGINT."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
