"""Chooses the desk for a session: inside the host, or in a process of its own inside a sandbox.

Nothing falls back: where the sandbox does not work, a provider that runs programs does not start until somebody says
by hand that it may do so without.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manydesks.desk.base import Bells, Desk, Doors, Seat, Way
from manydesks.desk.code import compile_code
from manydesks.desk.confined import Confined
from manydesks.desk.inprocess import InProcessDesk
from manydesks.desk.logbook import Logbook
from manydesks.desk.process import Furniture, ProcessDesk
from manydesks.desk.sandboxes.base import Descriptor as SandboxDescriptor
from manydesks.desk.sandboxes.base import Health
from manydesks.desk.sandboxes.limits import MIB, Limits
from manydesks.desk.sandboxes.mounts import Ask, Mount, allow_list, resolve
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.clock import Clock
from manydesks.domain.errors import BadInput
from manydesks.runner.instructions import workspace_fault
from manydesks.runner.program import find_program
from manydesks.runner.providers.base import Descriptor
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import Home
from manydesks.settings.model import SandboxSettings, Settings

#: what `auto` means
STRICT = "bubblewrap"
#: a sandbox that did not work is tried again after this long: its owner may have mended it
AGAIN_MS = 10_000
#: options that every provider with a way to a model has
UPSTREAM = "upstream"
#: a model server of the agent's own, and the name of the secret that it wants
BASE_URL, KEY = "base_url", "key"
#: where a provider's binary lies, for those that have one
PROGRAM = "program"
#: folders of the machine that the agent asks for
MOUNTS = "mounts"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What an agent gets, all of it checked."""

    provider: Descriptor
    options: Mapping[str, Any]
    #: to the model server that its provider calls; None: it needs none
    way: Way | None
    #: None: it sits inside the host
    box: SandboxDescriptor | None = None
    programs: tuple[Path, ...] = ()
    mounts: tuple[Mount, ...] = ()


class Furnisher:
    """One for each host."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        clock: Clock,
        doors: Doors,
        *,
        secrets: Callable[[], Mapping[str, str]],
        providers: Providers | None = None,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._clock = clock
        self._doors = doors
        self._secrets = secrets
        self._providers = providers or Providers()
        self._sandboxes = sandboxes or Sandboxes()
        self._tried: dict[str, tuple[int, Health]] = {}
        self._compiled = False

    def take_settings(self, settings: Settings) -> None:
        """These count for the next desk; those that are there stay as they are."""
        self._settings = settings

    async def desk(self, seat: Seat, bells: Bells) -> Desk:
        """Raises `BadInput` (and `SettingsError`) with one sentence if this agent cannot work as it is set up."""
        fit = await self._fit(seat)
        if fit.box is None:
            await asyncio.to_thread(Confined(seat.folder).take_over)
            return InProcessDesk(
                seat,
                bells,
                provider=fit.provider,
                options=fit.options,
                way=fit.way,
                doors=self._doors,
                clock=self._clock,
                idle_seconds=self._settings.runner.idle_seconds,
            )
        if not self._compiled:
            await asyncio.to_thread(compile_code)
            self._compiled = True
        furniture = Furniture(
            provider=fit.provider,
            options=fit.options,
            way=fit.way,
            sandbox=fit.box.name,
            box=fit.box.load(),
            isolates=fit.box.isolates,
            limits=limits_of(self._settings.sandbox),
            programs=fit.programs,
            mounts=fit.mounts,
            hidden=(self._home.path,),
            office=office_mark(self._home),
            idle_seconds=self._settings.runner.idle_seconds,
            log_level=self._settings.office.log_level,
        )
        log = self._home.logs / "desks" / f"{seat.session}.log"
        return ProcessDesk(seat, bells, furniture, self._doors, lambda: Logbook(log, self._secrets))

    async def examine(self, seat: Seat) -> Fit:
        """What the agent would get, without making a desk. Raises as `desk`, and for a workspace that no run could
        have."""
        fit = await self._fit(seat)
        if (fault := workspace_fault(seat.workspace)) is not None:
            raise BadInput(fault)
        if fit.box is not None and seat.workspace.resolve() != seat.workspace:
            raise BadInput(
                f"Its workspace {seat.workspace} is reached through a symbolic link, which no sandbox takes."
            )
        return fit

    async def _fit(self, seat: Seat) -> Fit:
        provider = self._providers.get(seat.provider)
        options = checked_options(provider, seat.options, self._settings)
        asked = options.pop(MOUNTS, [])
        if provider.needs_model and not seat.model:
            raise BadInput(f"The agent '{seat.agent}' has no model, and the provider '{provider.name}' needs one.")
        health = await asyncio.to_thread(provider.check, {k: v for k, v in options.items() if k in provider.options})
        if not health.works:
            raise BadInput(f"The provider '{provider.name}' cannot work: {health.why}")
        way = way_of(provider, options)
        if way is not None and (fault := await asyncio.to_thread(self._doors.check, way)):
            raise BadInput(fault)
        if provider.in_process and seat.sandbox is None:
            return Fit(provider=provider, options=options, way=way)
        box = await self._sandbox(seat)
        programs = await asyncio.to_thread(programs_of, provider, options)
        if programs and PROGRAM in provider.options:
            # found here, by the owner's PATH; at the desk there is another one
            options[PROGRAM] = str(programs[0])
        mounts = await asyncio.to_thread(self._mounts, asked)
        return Fit(provider=provider, options=options, way=way, box=box, programs=programs, mounts=mounts)

    async def health(self, name: str) -> Health:
        """Whether a sandbox works; a good answer is kept, a bad one for a while."""
        known = self._tried.get(name)
        if known is None or (not known[1].works and self._clock.monotonic() - known[0] > AGAIN_MS):
            known = self._tried[name] = (
                self._clock.monotonic(),
                await self._sandboxes.get(name).load().check(),
            )
        return known[1]

    async def _sandbox(self, seat: Seat) -> SandboxDescriptor:
        kind = seat.sandbox or self._settings.sandbox.kind
        name = STRICT if kind == "auto" else kind
        descriptor = self._sandboxes.get(name)
        health = await self.health(name)
        if not health.works:
            raise BadInput(
                f"The agent '{seat.agent}' cannot work: it has to be held by the sandbox '{name}', which does not work "
                f"here. {health.why} {health.advice}".rstrip()
            )
        return descriptor

    def _mounts(self, asked: Any) -> tuple[Mount, ...]:
        """Blocks: folders are looked through for keys."""
        asks = _asks(asked)
        return resolve(asks, allow_list(self._home), self._home) if asks else ()


def checked_options(provider: Descriptor, own: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The provider's section of the settings with the agent's own options over it.

    Raises `BadInput` for an option that the provider does not have, and for a value that is not allowed.
    """
    options = {**settings.providers.get(provider.name, {}), **own}
    known = dict.fromkeys((*provider.options, *([UPSTREAM] if provider.endpoint else []), MOUNTS))
    for name in options:
        if name not in known:
            raise BadInput(f"The provider '{provider.name}' has no option '{name}'; it has {', '.join(known)}.")
    provider.read({name: value for name, value in options.items() if name in provider.options})
    way_of(provider, dict(options))
    _asks(options.get(MOUNTS, []))
    return options


def _asks(asked: Any) -> list[Ask]:
    if not isinstance(asked, list) or not all(isinstance(path, str) for path in asked):
        raise BadInput(f"The option '{MOUNTS}' is a list of paths; one that ends in ':write' asks to write there.")
    return [Ask(path=path.removesuffix(":write"), write=path.endswith(":write")) for path in asked]


def way_of(provider: Descriptor, options: dict[str, Any]) -> Way | None:
    """To the model server that the provider calls, taken out of its options: by default the one that is named like its
    language."""
    if provider.endpoint is None:
        return None
    named, base_url, key = (options.pop(name, None) for name in (UPSTREAM, BASE_URL, KEY))
    for name, value in ((UPSTREAM, named), (BASE_URL, base_url), (KEY, key)):
        if value is not None and not isinstance(value, str):
            raise BadInput(f"The option '{name}' of '{provider.name}' must be a text.")
    return Way(kind=provider.endpoint, upstream=named or provider.endpoint, base_url=base_url, key=key)


def programs_of(provider: Descriptor, options: Mapping[str, Any]) -> tuple[Path, ...]:
    """The provider's binary, where it really is; what a package brings along is there with the interpreter."""
    if provider.program is None:
        return ()
    given = options.get(PROGRAM)
    found = find_program(provider.program, given=given if isinstance(given, str) else None)
    return (found,) if found is not None else ()


def limits_of(settings: SandboxSettings) -> Limits:
    return Limits(
        memory_bytes=settings.memory_mib * MIB,
        tasks=settings.tasks,
        tmp_bytes=settings.tmp_mib * MIB,
        open_files=settings.open_files,
        file_bytes=settings.file_mib * MIB,
    )


def office_mark(home: Home) -> str:
    """Names the office among those of this machine, in the marks of its desks."""
    return hashlib.sha256(os.fsencode(home.path)).hexdigest()[:12]
