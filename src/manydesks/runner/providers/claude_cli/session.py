"""A session's `claude`: at most one process, started when it is needed, gone on with where the last one stopped."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from manydesks.runner.instructions import instructions
from manydesks.runner.program import find_program
from manydesks.runner.providers.base import Station, Usage
from manydesks.runner.providers.claude_cli.archive import archive
from manydesks.runner.providers.claude_cli.command import (
    Papers,
    command,
    config_folder,
    environment,
    lay_out,
    transcript,
)
from manydesks.runner.providers.claude_cli.failure import INSTALL, Verdict
from manydesks.runner.providers.claude_cli.options import Options
from manydesks.runner.providers.claude_cli.process import LineTooLong, Process
from manydesks.runner.providers.claude_cli.spending import Spending

Given = TypeVar("Given")

log = logging.getLogger(__name__)

#: an interrupted claude that has not come to rest by then is ended
INTERRUPT_SECONDS = 5.0


class NotReady(Exception):
    """claude cannot be started here; the verdict says why."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class Session:
    """Not for two turns at once."""

    def __init__(self, station: Station, options: Options, *, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> None:
        self._station = station
        self._options = options
        self._new_uuid = new_uuid
        self._process: Process | None = None
        self._version = ""
        self._lock: int | None = None
        #: whether this conversation has ever given an answer, so that somebody may hold its id
        self._answered = False
        #: the conversation at hand; changes when claude begins a new one
        self.id = ""
        self.spending = Spending(resumed=False)
        #: of turns that were interrupted, and could not say so any more
        self.owed: list[Usage] = []

    @property
    def process(self) -> Process:
        assert self._process is not None, "not ready"
        return self._process

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def answered(self, id: str) -> None:
        """The conversation gave an answer, under this id."""
        self.id = id
        self._answered = True

    async def ready(self, continuation: str | None, *, fresh: bool = False) -> bool:
        """Have a process for this conversation, a new one for None; True: it could not be found, so a new one began.

        The process at hand is kept if it has that conversation and the workspace's instructions have not changed.
        Raises `NotReady`.
        """
        told = await asyncio.to_thread(
            instructions, self._station.workspace, agent=self._station.agent, name=self._station.name
        )
        if not fresh and self._fits(continuation) and told.version == self._version:
            return False
        await self.end()
        try:
            papers = await asyncio.to_thread(self._prepare, told.text)
        except OSError as error:
            raise NotReady(
                Verdict(failure="transient", reason=f"the session's folder cannot be used: {error}")
            ) from None
        known = None if fresh else await asyncio.to_thread(self._known, continuation)
        await self._start(known, papers)
        self._version = told.version
        return continuation is not None and known is None

    async def interrupt(self, ids: set[str]) -> None:
        """End the turn that has these inputs, and forget those not read yet; the process goes on, or is ended."""
        process = self._process
        if process is None:
            return
        if not self._options.warm:
            await self.end(now=True)  # its input is closed: it cannot be told
            return
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                calm = await self._calm(process, set(ids))
        except (TimeoutError, LineTooLong):
            calm = False
        if not calm:
            await self.end(now=True)

    async def end(self, *, now: bool = False) -> int:
        """End the process: its exit code, or 0 if there is none. Goes through to its end also when it is cancelled."""
        process, self._process = self._process, None
        if process is None:
            return 0
        self.owed += self.spending.unfinished()
        return await shielded(process.end(now=now))

    def settle(self) -> tuple[Usage, ...]:
        """What was spent and nobody was told yet."""
        owed, self.owed = tuple(self.owed), []
        return (*owed, *self.spending.unfinished())

    async def archive(self, now: int) -> None:
        """claude is about to shorten the conversation: the workspace gets it whole."""
        station = self._station
        try:
            file = await asyncio.to_thread(transcript, station.state, self.id)
            if file is not None:
                await asyncio.to_thread(archive, file, station.workspace, session=self.id, now=now)
        except OSError as error:
            log.warning("A conversation of agent '%s' cannot be archived: %s", station.agent, error)

    async def close(self) -> None:
        await self.end()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _fits(self, continuation: str | None) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        # A first turn that failed left nothing that anybody knows of: the process may serve the next attempt at it.
        return self.id == continuation if continuation is not None else not self._answered

    async def _calm(self, process: Process, ids: set[str]) -> bool:
        request = str(self._new_uuid())
        body = {"subtype": "interrupt", "cancel_queued": True}
        await process.write({"type": "control_request", "request_id": request, "request": body})
        heard = False
        while ids or not heard:
            line = await process.line(INTERRUPT_SECONDS)
            if line is None:
                return False
            if line["type"] == "control_response":
                heard = True
            elif line["type"] == "command_lifecycle" and line.get("state") in ("cancelled", "completed"):
                ids.discard(str(line.get("command_uuid")))
            elif line["type"] == "result":
                self.owed += self.spending.result(line)
        return True

    def _known(self, continuation: str | None) -> str | None:
        if continuation is None:
            return None
        try:
            session = str(uuid.UUID(continuation))
        except ValueError:
            return None  # another provider's
        return session if transcript(self._station.state, session) is not None else None

    def _prepare(self, told: str) -> Papers:
        """The folder, its lock and the files to start with. Raises `OSError`, `NotReady`."""
        state = self._station.state
        config_folder(state).mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._lock is None:
            lock = os.open(state / "claude.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                reason = "another runner's claude still works in this session"
                raise NotReady(Verdict(failure="transient", reason=reason)) from None
            self._lock = lock
        return lay_out(self._station, told)

    async def _start(self, known: str | None, papers: Papers) -> None:
        station, options = self._station, self._options
        program = await asyncio.to_thread(find_program, "claude", given=options.program)
        if program is None:
            at = f"the option `program` names no program that can be run: {options.program}"
            raise NotReady(Verdict(failure="permanent", reason=INSTALL if options.program is None else at))
        if station.endpoint is None:
            reason = "claude has no way to a model: name an upstream of kind `anthropic` and its key in the settings"
            raise NotReady(Verdict(failure="permanent", reason=reason))
        session = known or str(self._new_uuid())
        line = command(program, station, options, session=session, resume=known is not None, papers=papers)
        environ = environment(station, options, station.endpoint)
        try:
            self._process = await Process.start(line, environ=environ, folder=station.workspace)
        except OSError as error:
            # the folder or the program; which one is in the error
            raise NotReady(Verdict(failure="permanent", reason=f"claude cannot be started: {error}")) from None
        self.id = session
        self._answered = known is not None
        self.spending = Spending(resumed=known is not None)


async def shielded(work: Coroutine[Any, Any, Given]) -> Given:
    """Do it to the end, also when whoever waits is told to stop meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
