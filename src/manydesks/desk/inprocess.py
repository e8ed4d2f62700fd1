"""A desk inside the host: the same loop and the same mailbox, for providers that execute nothing an agent asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

from manydesks.desk.base import Bells, Seat
from manydesks.domain.clock import Clock
from manydesks.domain.errors import RunnerCrashed
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.loop import Runner
from manydesks.runner.providers.registry import Providers

log = logging.getLogger(__name__)

#: the nudge is in the same loop and is never lost; this is only the net
POLL_SECONDS = 5.0


def repair(folder: Path) -> None:
    """Mend the desk's side after a crash: here the host is the desk, and nobody else wrote there. Blocks."""
    _desk_side(folder).open()


class InProcessDesk:
    """The runner is a task of the host's loop; warm until the idle time."""

    def __init__(self, seat: Seat, bells: Bells, *, providers: Providers, clock: Clock, idle_seconds: float) -> None:
        self.mailbox = HostMailbox(seat.folder, session=seat.session, agent=seat.agent)
        self._seat = seat
        self._bells = bells
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._provider = providers.get(seat.provider)
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def nudge(self) -> None:
        self._nudged.set()
        if self._task is None:
            self._task = asyncio.create_task(self._sit(), name=f"runner {self._seat.session}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _sit(self) -> None:
        session = self._seat.session
        self._bells.started(session)
        trouble: str | None = None
        try:
            desk_side = _desk_side(self._seat.folder)
            await asyncio.to_thread(desk_side.open)
            runner = Runner(
                desk_side,
                self._provider.load(),
                agent=self._seat.agent,
                name=self._seat.agent_name,
                clock=self._clock,
                nudge=self._nudged,
                on_output=lambda: self._bells.output(session),
                idle_seconds=self._idle_seconds,
                poll_seconds=POLL_SECONDS,
            )
            await runner.run()
        except RunnerCrashed as crash:
            trouble = f"the runner died: {crash}"
        except Exception as error:
            # whatever a provider or a broken mailbox raises ends this runner only; its run is classified by the office
            log.exception("A runner ended by an error", extra={"action": "runner_failed", "session": session})
            trouble = f"the runner failed: {type(error).__name__}: {error}"
        self._task = None
        self._bells.ended(session, trouble)


def _desk_side(folder: Path) -> DeskMailbox:
    return DeskMailbox(folder / "in", folder / "out")
