"""A desk in a process of its own, inside a sandbox: started, nudged, listened to, and ended as a whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

from manydesks.desk.base import Bells, Doors, Seat, Way
from manydesks.desk.confined import Confined
from manydesks.desk.logbook import Logbook
from manydesks.desk.sandboxes.base import Plan, Running, Sandbox
from manydesks.desk.sandboxes.limits import Limits, judge
from manydesks.desk.sandboxes.mounts import Mount
from manydesks.domain.errors import MailboxFull, ManyDesksError, SandboxError
from manydesks.domain.failure import Failure, FailureClass
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.bell import LINE_BYTES, progress_of
from manydesks.runner.orders import Orders
from manydesks.runner.providers.base import Descriptor, Endpoint
from manydesks.runner.room import when_there_is_room

log = logging.getLogger(__name__)

#: a nudge could be lost only with the pipe, and then the runner ends; this is the net under both
POLL_SECONDS = 5.0
#: how long a runner gets to end its programs in good order before the whole tree is killed
GRACE_SECONDS = 2.0
#: of what a runner prints, as the reason of its end
REASON_CHARS = 500

#: how marks of desks begin: what an earlier host left is found by it
MARK = "manydesks-"


@dataclass(frozen=True, kw_only=True)
class Furniture:
    """What a desk in a process needs besides its seat."""

    provider: Descriptor
    #: checked already
    options: Mapping[str, Any]
    #: to the model server that its provider calls; None: it needs none
    way: Way | None
    #: the sandbox's word, and the sandbox
    sandbox: str
    box: Sandbox
    #: True: it really holds
    isolates: bool
    limits: Limits
    #: the provider's binary and what else it needs that is not part of the system
    programs: tuple[Path, ...] = ()
    mounts: tuple[Mount, ...] = ()
    #: what no desk may see: the office's home
    hidden: tuple[Path, ...] = ()
    #: names this office among others on the machine; part of every mark
    office: str
    idle_seconds: float
    log_level: str


class ProcessDesk:
    """The runner is `manydesks-runner` in a sandbox; warm until the idle time."""

    inside = False

    def __init__(
        self, seat: Seat, bells: Bells, furniture: Furniture, doors: Doors, logbook: Callable[[], Logbook]
    ) -> None:
        self.mailbox = HostMailbox(seat.folder, session=seat.session, agent=seat.agent)
        self.sandbox = furniture.sandbox
        self.takes_more = furniture.provider.takes_more
        self.continuation: str | None = None
        self._seat = seat
        self._bells = bells
        self._with = furniture
        self._doors = doors
        self._logbook = logbook
        self._running: Running | None = None
        #: which folders the runner has before it; a name may come to mean another one
        self._mounted: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None
        #: those who were told to leave and are still on their way
        self._leaving: set[asyncio.Task[None]] = set()
        #: who sits down waits until whoever was told to leave has left
        self._chair = asyncio.Lock()

    @property
    def seated(self) -> bool:
        return self._task is not None or bool(self._leaving)

    @property
    def keeps_process(self) -> bool:
        return self._task is not None

    def nudge(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._sit(), name=f"desk {self._seat.session}")
            return
        pipe = self._running.stdin if self._running is not None else None
        # a runner that does not read has enough nudges in its pipe; one that has ended is seen by whoever waits for it
        if pipe is not None and not pipe.is_closing() and pipe.transport.get_write_buffer_size() == 0:
            pipe.write(b"\n")

    def fault(self) -> str | None:
        running = self._running
        if running is None:
            return None
        for what, before in self._mounted.items():
            try:
                if _identity(self._folders()[what]) != before:
                    return f"{what} was replaced"
            except OSError:
                return f"{what} is gone"
        return judge(running.read(), self._with.limits)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        # also for those whom somebody else has told to leave: who asked for an empty desk gets one
        if self._leaving:
            await asyncio.wait(tuple(self._leaving))
        if task is not None and not task.cancelled():
            task.result()

    async def _sit(self) -> None:
        session = self._seat.session
        trouble: Failure | None = None
        book = self._logbook()
        try:
            async with self._chair:
                try:
                    trouble = await self._run(book)
                finally:
                    await asyncio.shield(self._doors.close(session))
        except ManyDesksError as error:
            trouble = Failure(kind=FailureClass.TRANSIENT, reason=f"the runner did not start: {error}")
        except OSError as error:
            trouble = Failure(kind=FailureClass.TRANSIENT, reason=f"the runner did not start: {error.strerror}")
        finally:
            book.close()
        self._task = None
        self._bells.ended(session, trouble)

    async def _run(self, book: Logbook) -> Failure | None:
        session = self._seat.session
        endpoint = await self._doors.open(session, self._with.way) if self._with.way else None
        # a disk that became full since the run began is no fault of its messages
        await when_there_is_room(lambda: asyncio.to_thread(self._lay_out, endpoint))
        plan = self._plan(endpoint)
        try:
            plan.check()
        except SandboxError as error:
            # a folder that is gone or replaced does not come back by trying again
            return Failure(kind=FailureClass.PERMANENT, reason=str(error))
        self._mounted = await asyncio.to_thread(self._look)
        running = self._running = await self._with.box.start(plan, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        self._bells.started(session)
        heard = [
            asyncio.ensure_future(self._listen(running.stdout)),
            asyncio.ensure_future(_keep(running.stderr, book)),
        ]
        try:
            code = await running.wait()
            # what it printed last is still in the pipes; nobody is left who could hold them open
            await asyncio.wait(heard, timeout=GRACE_SECONDS)
        except asyncio.CancelledError:
            # the whole tree ends, whatever else is cancelled meanwhile
            await asyncio.shield(running.stop(GRACE_SECONDS))
            raise
        finally:
            self._running = None
            running.stdin.close()
            for task in heard:
                task.cancel()
            await asyncio.gather(*heard, return_exceptions=True)
        return _trouble(code, book.last)

    def _lay_out(self, endpoint: Endpoint | None) -> None:
        """What has to lie there before a runner sits down. Blocks. Raises `MailboxFull`, and `OSError`."""
        try:
            Confined(self._seat.folder).mark(self.sandbox)
            self._orders(endpoint).write()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise MailboxFull(path=self._seat.folder) from error
            raise

    async def _listen(self, stdout: asyncio.StreamReader) -> None:
        """Whatever is printed rings; only lines that are short and of our own form mean more."""
        session, rest = self._seat.session, b""
        while printed := await stdout.read(65_536):
            *lines, rest = (rest + printed).split(b"\n")
            rest = rest[-LINE_BYTES:]
            pieces = [text for line in lines if len(line) <= LINE_BYTES and (text := progress_of(line)) is not None]
            for text in pieces:
                self._bells.progress(session, text)
            if len(pieces) < len(lines):
                self._bells.output(session)

    def _folders(self) -> dict[str, Path]:
        """What the runner has before it, in words."""
        seat = self._seat
        own = {f"the session's folder {seat.folder / name}": seat.folder / name for name in ("in", "out", "state")}
        return own | {f"the workspace {seat.workspace}": seat.workspace}

    def _look(self) -> dict[str, tuple[int, int]]:
        return {what: _identity(path) for what, path in self._folders().items()}

    def _orders(self, endpoint: Endpoint | None) -> Orders:
        seat = self._seat
        way = None
        if endpoint is not None:
            way = {"kind": endpoint.kind, "socket": str(endpoint.socket), "prefix": endpoint.prefix}
        return Orders(
            agent=seat.agent,
            name=seat.agent_name,
            provider=seat.provider,
            model=seat.model,
            workspace=str(seat.workspace),
            folder=str(seat.folder),
            options=self._with.options,
            endpoint=way,
            continuation=self.continuation,
            sandboxed=self._with.isolates,
            idle_seconds=self._with.idle_seconds,
            poll_seconds=POLL_SECONDS,
            log_level=self._with.log_level,
        )

    def _plan(self, endpoint: Endpoint | None) -> Plan:
        seat, folder = self._seat, self._seat.folder
        return Plan(
            # -I: nothing of the environment or of the folder it begins in is imported
            argv=(sys.executable, "-I", "-m", "manydesks.runner", str(folder / "in")),
            mark=f"{MARK}{self._with.office}-{seat.session}",
            workspace=seat.workspace,
            inbox=folder / "in",
            outbox=folder / "out",
            state=folder / "state",
            proxy=endpoint.socket if endpoint is not None else None,
            programs=self._with.programs,
            mounts=self._with.mounts,
            hidden=self._with.hidden,
            limits=self._with.limits,
        )


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


async def _keep(stderr: asyncio.StreamReader, book: Logbook) -> None:
    while printed := await stderr.read(65_536):
        book.write(printed)


def _trouble(code: int, last: str) -> Failure | None:
    """What the exit code means; None: it left in good order."""
    if code == 0:
        return None
    how = f"it ended with {code}"
    if code > 128:
        with contextlib.suppress(ValueError):
            how = f"it was ended by {signal.Signals(code - 128).name}"
    said = f": {last[:REASON_CHARS]}" if last else ""
    return Failure(kind=FailureClass.TRANSIENT, reason=f"the runner died: {how}{said}")
