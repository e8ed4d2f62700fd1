"""A command of the pipeline in a process of its own, with the Java and the workers that it starts: one session of the
kernel, ended as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass

from manydesks.desk.logbook import Logbook
from manydesks.desk.sandboxes import tree
from manydesks.domain.clock import Clock
from manydesks.domain.errors import OfficeError
from manydesks.office.hostlog import stamp
from manydesks.office.pipeline.plan import Job
from manydesks.office.upstreams import known_secrets
from manydesks.settings.home import Home

#: what a child says, in the home's `logs/`
LOG = "pipeline.log"
#: to finish the commit that is under way
GRACE_SECONDS = 10.0
#: the Java of a command that has ended sees so itself
JAVA_SECONDS = 5.0
LOOK_SECONDS = 0.05
#: to take the last words of what has ended
HEARD_SECONDS = 1.0
#: of a reason
REASON_CHARS = 500


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How it ended."""

    #: the exit code; negative: the signal that ended it
    code: int
    #: what it said last
    said: str


class Child:
    """One process. Whoever started it waits for it or stops it; then nothing of it is left."""

    def __init__(self, home: Home, job: Job, clock: Clock) -> None:
        self.job: Job = job
        self.started_at = clock.now()
        #: the same moment by the clock that never jumps
        self.begun = clock.monotonic()
        self._home = home
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._told = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Raises `OfficeError` if the machine refuses."""
        home, office = str(self._home.path), str(os.getpid())
        # unsafe paths off: a module that lies where the office was started is not ours
        python = (sys.executable, "-P", "-m")
        more = ("--parent", office) if self.job == "watch" else ()
        command = (*python, "manydesks", "--home", home, "pipeline", self.job, *more)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(*python, "manydesks.office.pipeline.launch", office, *command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._home.path,
                # Ctrl-C is the office's, and what belongs together is found by its session
                start_new_session=True,
            )
        except OSError as error:
            raise OfficeError(reason=f"the pipeline cannot be started, {error.strerror}.") from error

    async def wait(self) -> Ended:
        """Until it has ended, by itself or because of `leave`; nothing of it is left then."""
        process = self._process
        assert process is not None
        book = Logbook(self._home.logs / LOG, lambda: known_secrets(self._home))
        heard = asyncio.create_task(self._hear(book))
        exited, told = asyncio.create_task(process.wait()), asyncio.create_task(self._told.wait())
        try:
            await asyncio.wait({exited, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop(process)
            await asyncio.wait({heard}, timeout=HEARD_SECONDS)
            for task in (heard, exited, told):
                task.cancel()
            await asyncio.gather(heard, exited, told, return_exceptions=True)
            book.close()
        assert process.returncode is not None
        said = book.last[len(stamp(self._clock)) :].strip().removeprefix("manydesks: ")
        return Ended(code=process.returncode, said=said[:REASON_CHARS])

    def leave(self) -> None:
        """It is to end: a watch after the commit that is under way. Whoever waits for it sees that it does."""
        self._told.set()

    def kill(self) -> None:
        """End it, and all that it has started, without waiting for anything."""
        self._told.set()
        if self._process is not None and self._process.returncode is None:
            for pid in (self._process.pid, *tree.of_session(self._process.pid)):
                tree.send(pid, signal.SIGKILL)

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            tree.send(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await process.wait()
        late = process.returncode is None
        self.kill()
        await asyncio.to_thread(_clear, process.pid, 0.0 if late else JAVA_SECONDS)
        await process.wait()

    async def _hear(self, book: Logbook) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        rest = b""
        while printed := await self._process.stdout.read(65_536):
            *lines, rest = (rest + printed).split(b"\n")
            for line in lines:
                self._keep(line, book)
        if rest:
            self._keep(rest, book)

    def _keep(self, line: bytes, book: Logbook) -> None:
        if line.strip():
            book.write(f"{stamp(self._clock)} ".encode() + line + b"\n")


def _clear(leader: int, seconds: float) -> None:
    """What is left of the session gets so long to end by itself. Blocks."""
    deadline = time.monotonic() + seconds
    while tree.of_session(leader) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    tree.end(lambda: tree.of_session(leader))
