"""One `claude` as a process: JSON lines in, JSON lines out, its complaints kept, its whole group ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manydesks.runner.masking import masked

#: what a program at the desk prints, for the desk's log
printed = logging.getLogger("manydesks.runner.printed")

#: one line may hold a whole file that a tool read
MAX_LINE = 64 << 20
#: after it has ended, a child that holds its output open is not waited for
LAST_WORDS_SECONDS = 0.5
#: from closing its input to asking it to end, and from there to ending it
GRACE_SECONDS = 2.0

_TAIL_LINES = 20
_TAIL_LINE = 500


class LineTooLong(Exception):
    """claude printed a line longer than 64 MiB."""


class Process:
    """Made by `start`. Reads and writes may go on at the same time; there is one reader."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        assert protocol.stdin is not None
        assert protocol.stdout is not None
        assert protocol.stderr is not None
        self._transport = transport
        self._protocol = protocol
        self._in = protocol.stdin
        self._out = protocol.stdout
        self._err = protocol.stderr
        self._writing = asyncio.Lock()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._complaints = asyncio.create_task(self._drain(), name="claude-stderr")

    @classmethod
    async def start(cls, command: Sequence[str], *, environ: Mapping[str, str], folder: Path) -> Process:
        """Raises `OSError` when the program cannot be run."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env=dict(environ),
            start_new_session=True,  # a group of its own, so that its children can be ended with it
        )
        return cls(transport, protocol)

    @property
    def pid(self) -> int:
        return int(self._transport.get_pid() or 0)

    @property
    def returncode(self) -> int | None:
        """None: it lives."""
        return self._transport.get_returncode()

    async def write(self, line: Mapping[str, Any]) -> None:
        """One line. If the process is gone nothing happens here: the reader finds out."""
        data = json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
        with contextlib.suppress(ConnectionError, RuntimeError):  # RuntimeError: the transport is closed
            # nothing is awaited before this: whoever is cancelled here has written a whole line, or none
            self._in.write(data)
            async with self._writing:
                await self._in.drain()

    def finish_input(self) -> None:
        """It ends after what it was given."""
        self._in.close()

    async def line(self, seconds: float) -> dict[str, Any] | None:
        """The next line that is an object with a type; None at the end. Anything else goes to `tail`.

        Raises `TimeoutError` when no such line comes in time, and `LineTooLong`.
        """
        async with asyncio.timeout(seconds):
            while True:
                try:
                    raw = await self._out.readline()
                except ValueError:
                    raise LineTooLong from None
                if not raw:
                    return None
                try:
                    line = json.loads(raw)
                except (ValueError, RecursionError):
                    line = None
                if isinstance(line, dict) and isinstance(line.get("type"), str):
                    return line
                self._keep(raw)
                # a flood of rubbish is always ready to be read: others get their turn, and the time limit its chance
                await asyncio.sleep(0)

    def tail(self) -> str:
        """What it complained about last, one line, keys masked."""
        return masked(" | ".join(self._tail))

    async def end(self, *, now: bool = False) -> int:
        """End it and its group, and close the pipes; `now`: without asking. Gives its exit code."""
        self._in.close()
        if not now:
            await self._exits(GRACE_SECONDS)
        if self.returncode is None and not now:
            self._signal(signal.SIGTERM)
            await self._exits(GRACE_SECONDS)
        # also when it has ended: what it left behind in its group
        self._signal(signal.SIGKILL)
        await self._protocol.exited.wait()
        await self._complaints
        self._transport.close()
        code = self.returncode
        return code if code is not None else -signal.SIGKILL

    async def _exits(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._protocol.exited.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _drain(self) -> None:
        rest = b""
        while piece := await self._err.read(65_536):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-65_536:]
            for line in lines:
                self._keep(line)
        self._keep(rest)

    def _keep(self, raw: bytes) -> None:
        text = raw[: 4 * _TAIL_LINE].decode(errors="replace").strip()
        if text:
            short = text if len(text) <= _TAIL_LINE else text[:_TAIL_LINE] + "…"
            printed.info("claude: %s", masked(short))
            self._tail.append(short)


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Says at once when the process has ended, whoever still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=MAX_LINE, loop=loop)
        self._clock = loop
        self._deaf = False
        self.exited = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if not self._deaf:
            super().pipe_data_received(fd, data)

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
        self._clock.call_later(LAST_WORDS_SECONDS, self._stop_listening)

    def _stop_listening(self) -> None:
        self._deaf = True
        for reader in (self.stdout, self.stderr):
            if reader is not None:
                reader.feed_eof()
