"""A desk inside the host: the same loop and the same mailbox, for providers that execute nothing an agent asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from manydesks.desk.base import Bells, Doors, Seat, Way
from manydesks.domain.clock import Clock
from manydesks.domain.errors import RunnerCrashed
from manydesks.domain.failure import Failure, FailureClass
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.loop import Runner
from manydesks.runner.providers.base import Descriptor, Endpoint, Station
from manydesks.runner.room import when_there_is_room
from manydesks.runner.tools.base import Means

log = logging.getLogger(__name__)

#: the nudge is in the same loop and is never lost; this is only the net, and every runner without work casts it
POLL_SECONDS = 60.0


class InProcessDesk:
    """The runner is a task of the host's loop; warm until the idle time."""

    sandbox = "in process"
    inside = True
    keeps_process = False

    def __init__(
        self,
        seat: Seat,
        bells: Bells,
        *,
        provider: Descriptor,
        options: Mapping[str, Any],
        way: Way | None,
        doors: Doors,
        clock: Clock,
        idle_seconds: float,
    ) -> None:
        self.mailbox = HostMailbox(seat.folder, session=seat.session, agent=seat.agent)
        self.takes_more = provider.takes_more
        self.continuation: str | None = None
        self._seat = seat
        self._bells = bells
        self._provider = provider
        self._options = options
        self._way = way
        self._doors = doors
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def seated(self) -> bool:
        return self._task is not None

    def nudge(self) -> None:
        self._nudged.set()
        if self._task is None:
            self._task = asyncio.create_task(self._sit(), name=f"runner {self._seat.session}")

    def fault(self) -> str | None:
        return None

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _sit(self) -> None:
        session = self._seat.session
        self._bells.started(session)
        trouble: Failure | None = None
        try:
            await self._run()
        except RunnerCrashed as crash:
            trouble = Failure(kind=FailureClass.TRANSIENT, reason=f"the runner died: {crash}")
        except Exception as error:
            # whatever a provider or a broken mailbox raises ends this runner only; its run is classified by the office
            log.exception("A runner ended by an error", extra={"action": "runner_failed", "session": session})
            reason = f"the runner failed: {type(error).__name__}: {error}"
            trouble = Failure(kind=FailureClass.TRANSIENT, reason=reason)
        self._task = None
        self._bells.ended(session, trouble)

    async def _run(self) -> None:
        seat, session = self._seat, self._seat.session
        desk_side = DeskMailbox(seat.folder / "in", seat.folder / "out")
        await when_there_is_room(lambda: asyncio.to_thread(desk_side.open))
        endpoint = await self._doors.open(session, self._way) if self._way else None
        try:
            provider = self._provider.load(self._station(endpoint))
            runner = Runner(
                desk_side,
                provider,
                agent=seat.agent,
                name=seat.agent_name,
                clock=self._clock,
                nudge=self._nudged,
                on_output=lambda: self._bells.output(session),
                on_progress=lambda text: self._bells.progress(session, text),
                idle_seconds=self._idle_seconds,
                poll_seconds=POLL_SECONDS,
                sure_of_nudges=True,
                continuation=self.continuation,
                means=Means(workspace=seat.workspace, outbox=seat.folder / "out" / "outbox"),
            )
            try:
                await runner.run()
            finally:
                await provider.close()
        finally:
            await self._doors.close(session)

    def _station(self, endpoint: Endpoint | None) -> Station:
        seat = self._seat
        return Station(
            agent=seat.agent,
            name=seat.agent_name,
            model=seat.model,
            workspace=seat.workspace,
            state=seat.folder / "state",
            inbox=seat.folder / "in" / "inbox",
            options=self._options,
            endpoint=endpoint,
        )
