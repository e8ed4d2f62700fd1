"""The host: the one process that holds the office's lock, and everything that moves in it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from manydesks import __version__
from manydesks.channels.console import Screen
from manydesks.desk.furnish import STRICT, Furnisher
from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput, StoreError
from manydesks.office import hostlog
from manydesks.office.acts.base import Means
from manydesks.office.budget import Purse
from manydesks.office.clerk import Clerk
from manydesks.office.control import Control
from manydesks.office.deliver import Deliverer
from manydesks.office.dispatch import Dispatcher
from manydesks.office.ground import Ground
from manydesks.office.hooks.roster import Hooks
from manydesks.office.hostlog import HostLog
from manydesks.office.inforce import InForce
from manydesks.office.intake import Intake
from manydesks.office.keeper import Keeper
from manydesks.office.lock import HOST_LOCK, WRITE_LOCK, beat, host_locks
from manydesks.office.pipeline.archivist import Archivist
from manydesks.office.pipeline.reach import lake_reach
from manydesks.office.recovery import recover
from manydesks.office.reload import Reload
from manydesks.office.rules import rules
from manydesks.office.running import leave, run_to_its_end
from manydesks.office.surface import Live, MakeSurface, Premises, Surface
from manydesks.office.switchboard import Switchboard
from manydesks.office.threads import MailboxThreads
from manydesks.office.upstreams import Doors, known_secrets
from manydesks.office.valid import valid_settings
from manydesks.office.wire import SOCKET
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.claim import LEASE_MS
from manydesks.store.store import Store
from manydesks.store.wake import Bell

log = logging.getLogger(__name__)

#: a lost wake-up, a timer set by a clock that jumped: nothing waits longer than this
LOOK_AGAIN_SECONDS = 1.0


def run_host(
    home: Home,
    *,
    announce: Callable[[dict[str, Any]], None] | None = None,
    surfaces: Sequence[MakeSurface] = (),
) -> int:
    """Open the office and stay until told to stop; the exit code.

    `announce` is told once, when the office is open; without it the office prints what a person would like to see.
    """
    # whatever SQLite, a desk or a library makes here without a thought is the owner's alone
    os.umask(0o077)
    home.prepare()
    settings = valid_settings(home)
    hostlog.set_up(settings.office.log_level, lambda: known_secrets(home))
    with host_locks(home):
        left = run_to_its_end(Host(home, settings, announce=announce, surfaces=surfaces).run())
    if left:
        leave(0, left)
    return 0


class Host:
    """Starts in the order of recovery, stops in the order of a good evening."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        clock: Clock | None = None,
        *,
        announce: Callable[[dict[str, Any]], None] | None = None,
        surfaces: Sequence[MakeSurface] = (),
    ) -> None:
        self._home = home
        self._settings = settings
        self._in_force = InForce(settings)
        self._clock = clock or SystemClock()
        self._started = self._clock.monotonic()
        self._started_at = self._clock.now()
        self._bell = Bell(home.socket(SOCKET).parent)
        self._changed = asyncio.Event()
        self._told = asyncio.Event()
        #: told a second time: nothing is waited for any more
        self._hurry = asyncio.Event()
        self._reload = Reload(home, self._in_force)
        self._look_now = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clerk: Clerk | None = None
        self._dispatcher: Dispatcher | None = None
        self._board: Switchboard | None = None
        self._hooks: Hooks | None = None
        self._archivist: Archivist | None = None
        self._announce = announce
        self._make_surfaces = surfaces
        self._surfaces: list[Surface] = []
        self._commit_bells: list[Callable[[], None]] = []
        self._live_bells: list[Callable[[Live], None]] = []
        self._rereading = asyncio.Lock()
        #: what surfaces had to say before the office was open; None: it is
        self._early: list[str] | None = []
        # a terminal has a person before it, and a service its own clock; only our log needs the time on each line
        kept = HostLog(home.logs / hostlog.NAME).has(1)
        self._screen = Screen(partial(hostlog.stamp, self._clock) if kept else None) if announce is None else None

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._tell)
        # a terminal that is closed closes the office that was opened there; without one it means: look at the settings
        at_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._loop.add_signal_handler(signal.SIGHUP, self._tell if at_terminal else self._reread)
        store = Store(
            self._home.office_db,
            durability=self._settings.office.durability,
            clock=self._clock,
            committed=self._committed,
        )
        threads = MailboxThreads()
        try:
            await self._open(store, threads)
            self._show("The office is closed.")
        finally:
            store.close()
            threads.close()
            self._bell.close()
            if self._screen is not None:
                self._screen.close()

    async def _open(self, store: Store, threads: MailboxThreads) -> None:
        purse = Purse(store, self._settings)
        doors = Doors(self._home, self._settings, purse)
        doors.sweep()
        hooks = self._hooks = Hooks(store, self._home, self._in_force, self._clock)
        means = Means(
            store=store,
            home=self._home,
            in_force=self._in_force,
            hooks=hooks,
            stop_runs=self._stop_runs,
            dismiss=self._dismiss,
        )
        board = self._board = Switchboard(
            store,
            self._home,
            self._settings,
            hand_in=Intake(means).hand_in,
            show=self._show,
            changed=self._changed.set,
        )
        recovered = await recover(store, self._home, threads, rules(self._settings), board.rules(), hooks)
        hooks.start()
        self._clerk = Clerk(means)
        await self._clerk.furnish()
        await self._clerk.refresh()
        begun = {"version": __version__, "incarnation": store.worker, "recovered": recovered}
        await store.note("processor_start", **begun, lineage=await store.lineage())
        furnisher = Furnisher(self._home, self._settings, self._clock, doors, secrets=doors.secrets)
        dispatcher = self._dispatcher = Dispatcher(
            store, self._home, self._in_force, self._clock, threads, furnisher, hooks
        )
        deliverer = Deliverer(store, board, self._settings, files=self._home.files, clock=self._clock)
        keeper = Keeper(
            store,
            self._settings.retention,
            self._clock,
            self._home,
            lake=lambda: lake_reach(self._in_force.settings.pipeline, self._home),
        )
        archivist = self._archivist = Archivist(self._home, self._in_force, self._clock)
        for taker in (
            purse.take_settings,
            doors.take_settings,
            furnisher.take_settings,
            board.take_settings,
            deliverer.take_settings,
        ):
            self._in_force.tell(taker)
        self._in_force.tell(lambda fresh: keeper.take_settings(fresh.retention))
        self._in_force.tell(lambda fresh: hostlog.take_level(fresh.office.log_level))
        dispatcher.on_live = self._live
        self._surfaces = [make(self._premises(store)) for make in self._make_surfaces]
        # before the socket: whoever was told that the office is open finds all of it
        for surface in self._surfaces:
            await surface.start()
        # also before it: what is deleted from now on is missed
        ground = Ground(self._home.run / HOST_LOCK, self._home.run / WRITE_LOCK, self._home.office_db)
        control = Control(self._home.socket(SOCKET), self._act)
        await control.start()
        self._show(f"The office is open: {self._home.path} (process {os.getpid()}). Ctrl-C closes it.")
        early, self._early = self._early or [], None
        for line in early:
            self._show(line)
        if self._announce is not None:
            self._announce({"pid": os.getpid(), "home": str(self._home.path)})
        keeper.start()
        archivist.start()
        await board.start()
        sandbox = asyncio.create_task(self._tell_of_sandbox(furnisher))
        try:
            await self._work(store, dispatcher, deliverer, ground)
        finally:
            sandbox.cancel()
            await asyncio.gather(sandbox, return_exceptions=True)
            # its process has a commit to finish: meanwhile the others stop
            archived = asyncio.create_task(archivist.stop(self._hurry))
            await control.stop()
            for surface in self._surfaces:
                await surface.stop()
            await keeper.stop()
            await dispatcher.stop(self._in_force.settings.runner.stop_seconds, self._hurry)
            await hooks.stop()
            await doors.stop()
            await deliverer.pump()
            await self._unless_hurried(deliverer.drain(self._in_force.settings.delivery.timeout_seconds))
            await self._unless_hurried(board.stop())
            await archived
            await store.note("processor_stop", version=__version__, incarnation=store.worker)

    async def _tell_of_sandbox(self, furnisher: Furnisher) -> None:
        """Agents that run programs would not start: better said now than with the first message."""
        if self._settings.sandbox.kind == "none":
            return
        health = await furnisher.health(STRICT)
        if not health.works:
            self._show(f"There is no sandbox for programs. {health.why} {health.advice}")
            log.warning("There is no sandbox: %s", health.why, extra={"action": "no_sandbox"})

    async def _work(self, store: Store, dispatcher: Dispatcher, deliverer: Deliverer, ground: Ground) -> None:
        """Until told to stop: after every commit, and at every timer, begin what can begin."""
        extended = looked = self._clock.monotonic()
        written = HostLog(self._home.logs / hostlog.NAME)
        told = asyncio.create_task(self._told.wait())
        try:
            while not told.done():
                self._changed.clear()
                if self._hooks is not None:
                    self._hooks.news()
                changed = asyncio.create_task(self._changed.wait())
                if self._clock.monotonic() - looked > LOOK_AGAIN_SECONDS * 1000:
                    ground.check()
                    written.look()
                    beat(self._home)
                    looked = self._clock.monotonic()
                    async with self._rereading:
                        await self._reload.look(store)
                if self._look_now:
                    self._look_now = False
                    await self._reread_now(store)
                    if self._hooks is not None:
                        self._hooks.reload_soon()  # their files too
                try:
                    await self._together(dispatcher.pump(), deliverer.pump())
                    if self._clock.monotonic() - extended > LEASE_MS // 3:
                        await store.extend()
                        extended = self._clock.monotonic()
                    seconds = await self._until_timer(store)
                except StoreError as error:
                    # a full disk, say: what is stored stays stored, and the next look may find room
                    log.error("%s", error, extra={"action": "store_failed"})
                    seconds = LOOK_AGAIN_SECONDS
                await asyncio.wait({told, changed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            told.cancel()

    async def _together(self, *work: Coroutine[Any, Any, None]) -> None:
        """Side by side, so that what they ask of the store is one commit; the first trouble of theirs, once all are
        done."""
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _until_timer(self, store: Store) -> float:
        wait = await store.next_timer()
        if wait is None:
            return LOOK_AGAIN_SECONDS
        return min(LOOK_AGAIN_SECONDS, max(0.001, wait / 1000))

    def _tell(self) -> None:
        """Close; told again, without waiting for anybody."""
        if self._told.is_set():
            self._hurry.set()
        self._told.set()

    def _reread(self) -> None:
        self._look_now = True
        self._changed.set()

    async def _reread_now(self, store: Store) -> None:
        async with self._rereading:
            await self._reload.look(store, at_once=True)

    def _premises(self, store: Store) -> Premises:
        return Premises(
            home=self._home,
            in_force=self._in_force,
            clock=self._clock,
            act=self._act,
            show=self._show_when_open,
            reread=partial(self._reread_now, store),
            at_work=self._at_work,
            on_commit=self._commit_bells.append,
            on_live=self._live_bells.append,
        )

    def _at_work(self) -> frozenset[str]:
        return self._dispatcher.at_work() if self._dispatcher is not None else frozenset()

    def _live(self, live: Live) -> None:
        for bell in self._live_bells:
            bell(live)

    def _news(self) -> None:
        self._changed.set()
        for bell in self._commit_bells:
            bell()

    async def _dismiss(self, sessions: Sequence[str]) -> None:
        if self._dispatcher is not None:
            await self._dispatcher.dismiss(sessions)

    def _stop_runs(self, runs: Sequence[tuple[str, int]]) -> None:
        if self._dispatcher is not None:
            self._dispatcher.stop_runs(runs)

    async def _unless_hurried(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it is done, or we are told a second time to close."""
        working, hurry = asyncio.create_task(work), asyncio.create_task(self._hurry.wait())
        await asyncio.wait({working, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not working.done():
            working.cancel()
        await asyncio.gather(working, hurry, return_exceptions=True)

    def _show_when_open(self, line: str) -> None:
        if self._early is None:
            self._show(line)
        else:
            self._early.append(line)

    def _show(self, line: str) -> None:
        if self._screen is not None:
            self._screen.show(line)

    def _committed(self) -> None:
        """From the writer's thread, after each commit."""
        self._bell.ring()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to wake
                self._loop.call_soon_threadsafe(self._news)

    async def _act(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        if verb == "status":
            return {
                "pid": os.getpid(),
                "version": __version__,
                "uptime_ms": self._clock.monotonic() - self._started,
                "started_at": self._started_at,
                "home": str(self._home.path),
                "desks": self._dispatcher.desks() if self._dispatcher is not None else None,
                "channels": {"up": sorted(self._board.up), "down": dict(self._board.why)} if self._board else None,
                "settings": {"refused": self._reload.refused, "nextStart": self._reload.waiting()},
                "pipeline": self._archivist.shown() if self._archivist is not None else None,
                **{surface.name: surface.shown() for surface in self._surfaces},
            }
        if self._clerk is None or self._dispatcher is None:
            raise BadInput("The office is not open yet.")
        if verb == "words":
            return {"words": self._dispatcher.words(str(args.get("trace", "")))}
        return await self._clerk.perform(verb, args)
