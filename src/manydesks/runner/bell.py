"""How a runner in a process of its own and its host call each other: a pipe each way, and nothing in it that counts.

To the runner: any byte is a nudge, the end of the pipe is the end of the host. To the host: one short line for each
write, or `{"progress": …}` for a piece of an answer that is still being written. A line that does not fit into the pipe
is left out: what waits there rings all the same.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress

#: a write of at most this much goes into a pipe whole or not at all (PIPE_BUF)
LINE_BYTES = 4096
#: characters of one progress line; each may take six bytes in JSON, and twelve beyond the basic plane
PIECE = 300

WRITTEN = b".\n"


class HostPipe:
    """The runner's end."""

    def __init__(self, stdin: int = 0, stdout: int = 1) -> None:
        self._stdin = stdin
        self._stdout = stdout
        #: set by each nudge
        self.nudged = asyncio.Event()
        #: set when the host is gone
        self.gone = asyncio.Event()

    def open(self) -> None:
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        asyncio.get_running_loop().add_reader(self._stdin, self._hear)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._stdin)

    def written(self) -> None:
        self._say(WRITTEN)

    def progress(self, text: str) -> None:
        for start in range(0, len(text), PIECE):
            self._say(json.dumps({"progress": text[start : start + PIECE]}).encode() + b"\n")

    def _hear(self) -> None:
        try:
            heard = os.read(self._stdin, 65_536)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if heard:
            self.nudged.set()
            return
        self.close()
        self.gone.set()
        self.nudged.set()

    def _say(self, line: bytes) -> None:
        # a full pipe rings already; a broken one shows on the other pipe too
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._stdout, line)


def progress_of(line: bytes) -> str | None:
    """The text of a progress line, as a host may read it from a stranger; None for any other line."""
    if not line.startswith(b"{"):
        return None
    try:
        text = json.loads(line)["progress"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return text[:PIECE] if isinstance(text, str) else None
