"""The office's side of one plugin's process: started when it is needed, one call at a time, killed when it takes long.

A process, not a thread: what hangs in a thread cannot be ended, and one bad pattern of a regular expression would hold
the interpreter, and with it the whole office.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable
from typing import Any

from manydesks.desk.logbook import Logbook
from manydesks.desk.sandboxes import tree
from manydesks.domain.cleaning import sentence
from manydesks.office.hooks.base import MOST_SECONDS
from manydesks.office.hooks.child import LOADED
from manydesks.office.hooks.found import Found
from manydesks.office.upstreams import known_secrets
from manydesks.settings.home import Home

#: for the interpreter and the plugin's own imports
LOAD_SECONDS = 5.0
#: of one line: the longest text that settings allow, every character escaped as six
LINE_BYTES = 8 << 20
#: what a plugin prints is taken so fast and no faster: one that floods waits, and its time runs
PRINT_BYTES = 64 * 1024
PRINT_SECONDS = 0.05
#: to take the last words of a process that has ended
PRINTED_SECONDS = 0.2
#: to be gone after it was killed
GONE_SECONDS = 1.0

SECRET = "MANYDESKS_SECRET_"
#: the variable by which a process is known that one of a plugin's has started; no setting's, as a plugin may call us
MARK = "_MANYDESKS_PLUGIN"


class HookFailed(Exception):
    """Inner to hooks: a call came to nothing. The sentence says why."""


class ProcessLost(HookFailed):
    """The process had to be killed, or has ended by itself: it cost time, and will do so again."""


class LeftOut(HookFailed):
    """The hook lost its process too often: from now on it is asked no more."""


class Line:
    """One process of one plugin. Whatever happens to a call, the next one finds a process that listens."""

    def __init__(self, found: Found, home: Home) -> None:
        self._found = found
        self._home = home
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        #: the value of `MARK` for this process and what it starts
        self._mark = ""
        #: of the last call: only the answer to it counts
        self._number = LOADED
        self._printing: asyncio.Task[None] | None = None
        self._hooks: list[dict[str, Any]] = []
        self._closed = False

    async def hooks(self) -> list[dict[str, Any]]:
        """What the plugin says it has: the process is started for that. Raises `HookFailed`."""
        async with self._turn:
            await self._started()
            return self._hooks

    async def ask(
        self, hook: str, name: str, given: dict[str, Any], seconds: float, look: Callable[[], None]
    ) -> dict[str, Any]:
        """Call one function; the time runs from when it is its turn. Raises `HookFailed`, and what `look` does then."""
        async with self._turn:
            look()
            process = await self._started()
            assert process.stdin is not None
            self._number += 1
            call = {"number": self._number, "hook": hook, "name": name, "given": given}
            answer = await self._exchange(process, call, min(seconds, MOST_SECONDS), f"it took more than {seconds:g} s")
            if self._closed:
                await self._end()
        if isinstance(reason := answer.get("failed"), str):
            raise HookFailed(sentence(reason))
        return answer

    async def close(self) -> None:
        """After the call that is under way. Those that waited for it, or come later, still get their answer."""
        self._closed = True
        async with self._turn:
            await self._end()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._end()
        found = self._found
        if found.fault is not None:
            raise HookFailed(found.fault)
        kind, where = ("file", str(found.file)) if found.file is not None else ("module", str(found.module))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(SECRET)}
        # unsafe paths off: a module that lies where the office was started is not the plugin's
        argv = (sys.executable, "-P", "-m", "manydesks.office.hooks.child", kind, where, str(os.getpid()))
        self._mark = secrets.token_hex(8)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._home.path,
                env={**environ, "MANYDESKS_HOME": str(self._home.path), MARK: self._mark},
                limit=LINE_BYTES,
                # Ctrl-C is the office's: it still has answers to hook
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessLost(f"its process cannot be started, {error.strerror}") from error
        self._process = process
        self._printing = asyncio.create_task(self._print(process))
        self._number = LOADED
        said = await self._exchange(process, None, LOAD_SECONDS, f"it was not loaded within {LOAD_SECONDS:g} s")
        if isinstance(reason := said.get("failed"), str):
            await self._end()
            raise HookFailed(sentence(reason))
        self._hooks = said["hooks"]
        return process

    async def _exchange(
        self, process: asyncio.subprocess.Process, call: dict[str, Any] | None, seconds: float, late: str
    ) -> dict[str, Any]:
        """One line out, one line in. Whoever leaves in the middle leaves no process behind that is out of step, and one
        that is so all the same, as something else has written on its line, is ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        reason = late
        try:
            async with asyncio.timeout(seconds):
                # one that has ended hears nothing more, but what it said before is still to be read
                with contextlib.suppress(ConnectionError):
                    if call is not None:
                        process.stdin.write(json.dumps(call).encode() + b"\n")
                    await process.stdin.drain()
                line = await process.stdout.readline()
                # in its time, too: it may have closed its end, and go on
                status = None if line.endswith(b"\n") else await process.wait()
            if status is None:
                answer = json.loads(line)
                if isinstance(answer, dict) and answer.get("number") == self._number:
                    return answer
                reason = "its process wrote something else than the answer to this call"
            else:
                reason = f"its process has ended with {status}"
        except TimeoutError:
            pass
        except ValueError:
            reason = f"it gave back more than {LINE_BYTES >> 20} MiB, or no answer"
        except asyncio.CancelledError:
            await self._end()
            raise
        await self._end()
        raise ProcessLost(reason)

    async def _end(self) -> None:
        process, self._process = self._process, None
        printing, self._printing = self._printing, None
        if process is not None:
            # to the end, also for somebody who is in no mood to wait for it
            await asyncio.shield(asyncio.to_thread(_end_all, process, self._mark))
        if printing is not None:
            # what it printed last is the reason, mostly; something else that holds the pipe open is not waited for
            await asyncio.wait({printing}, timeout=PRINTED_SECONDS)
            printing.cancel()
            await asyncio.gather(printing, return_exceptions=True)
        if process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GONE_SECONDS):
                    await process.wait()
            # pipes that something else holds open stay open without it; asyncio has no public way
            process._transport.close()  # type: ignore[attr-defined]

    async def _print(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        path = self._home.logs / "plugins" / f"{self._found.name}.log"
        book = Logbook(path, lambda: known_secrets(self._home))
        try:
            while printed := await process.stderr.read(PRINT_BYTES):
                book.write(printed)
                if len(printed) == PRINT_BYTES:
                    await asyncio.sleep(PRINT_SECONDS)
        finally:
            book.close()


def _end_all(process: asyncio.subprocess.Process, mark: str) -> None:
    """The process, its group, and all that it started, wherever in the tree they are now. Blocks.

    Not promised where there is no `/proc`: what has left the group. Nor anywhere: what has left it, lost its parents,
    and was started with an environment of its own.
    """
    pid = process.pid

    def find() -> set[int]:
        found = tree.marked(mark, MARK)
        # its number may be another's once it has ended; while it lives it goes last, as its children are known by it
        return found if process.returncode is not None else (found | tree.descendants(pid)) - {pid}

    if process.returncode is None:
        tree.send(pid, signal.SIGSTOP)
    tree.end(find)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
