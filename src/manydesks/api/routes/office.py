"""The office itself: how it is, what it needs, its settings, and the figures of its history."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, cast

from fastapi import APIRouter, HTTPException, Query
from fastapi import Path as PathParameter

from manydesks.api.checkups import Checkups
from manydesks.api.office import Office
from manydesks.api.shapes.base import TABLE, Day, Limit, OfAgent, errors
from manydesks.api.shapes.settings import Partial, SettingsChanged, SettingsGiven, SettingsShown
from manydesks.api.shapes.views import Checkup, Plugins, Status
from manydesks.api.shapes.views import Insights as InsightsShown
from manydesks.domain.errors import BadInput, SettingsError
from manydesks.domain.insight import FILE, TABLES
from manydesks.insights.published import Insights
from manydesks.office.lock import last_beat
from manydesks.office.upstreams import TOKEN, known_secrets
from manydesks.office.valid import check_listening, check_settings
from manydesks.settings.merge import merge_settings, settings_version
from manydesks.settings.model import Settings
from manydesks.settings.secrets import load_secrets, mask, mask_texts
from manydesks.store.reader import Reader

Table = Annotated[str, PathParameter(pattern=TABLE, description=f"One of {', '.join(TABLES)}.")]
From = Annotated[Day | None, Query(alias="from", description="The first day, UTC, included.")]
To = Annotated[Day | None, Query(description="The last day, UTC, included; not before `from`.")]


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["office"])
    checked = Checkups(office)

    @router.get("/api/status", response_model=Status, summary="How the office is")
    async def status() -> dict[str, Any]:
        host = await office.act("status")

        def look(reader: Reader) -> tuple[dict[str, Any], dict[str, int]]:
            store = {
                "head": reader.head(),
                "first": reader.first(),
                "archived": reader.archived(),
                "bytes": office.home.office_db.stat().st_size,
                "durability": office.settings.office.durability,
                "paused": reader.office_paused(),
            }
            return store, reader.queue_status()

        store, queue = await office.read(look)
        return {
            "ok": True,
            "version": host["version"],
            "uptime": host["uptime_ms"],
            "store": store,
            "channels": host["channels"],
            "runners": host["desks"],
            "pipeline": host["pipeline"],
            "heartbeat": last_beat(office.home),
            "settings": host["settings"],
            "queue": queue,
        }

    @router.get("/api/doctor", response_model=Checkup, summary="What the office needs, and what to do")
    async def doctor() -> dict[str, Any]:
        """Every agent is looked at as if it were to start now. Nothing is changed; it takes a moment, and whoever asks
        meanwhile gets the same answer."""
        findings = await checked.now()
        good = all(finding.level != "bad" for finding in findings)
        return {"ok": good, "findings": [asdict(finding) for finding in findings]}

    @router.get("/api/hooks", response_model=Plugins, summary="The plugins that see messages and events")
    async def hooks() -> dict[str, Any]:
        return await office.act("hooks")

    @router.get("/api/settings", response_model=SettingsShown, summary="The settings")
    async def settings() -> dict[str, Any]:
        return await _settings(office)

    @router.put(
        "/api/settings", response_model=SettingsChanged, responses=errors(409, 413, 415), summary="Change settings"
    )
    async def change(given: SettingsGiven) -> dict[str, Any]:  # type: ignore[valid-type]
        """What is given is merged, key by key, into `settings.toml`, whose comments stay. All of it, or nothing."""
        changes = cast("Partial", given).model_dump(exclude_unset=True)
        secrets, version = changes.pop("secrets", {}), changes.pop("version", None)
        _storable({"settings": changes, "secrets": secrets})

        def fits(settings: Settings) -> None:
            check_settings(settings)
            check_listening(settings, office.premises.in_force.listening)

        await office.work(lambda: merge_settings(office.home, changes, version=version, fits=fits, secrets=secrets))
        await office.premises.reread()
        if changes or secrets:
            await office.act("audit")
        now = await _settings(office)
        return {**now, "ok": True, "settings": now}

    @router.get(
        "/api/insights/{table}", response_model=InsightsShown, responses=errors(404), summary="Figures of the history"
    )
    async def insights(
        table: Table, first: From = None, to: To = None, agent: OfAgent = None, limit: Limit = 100
    ) -> dict[str, Any]:
        """As the pipeline published them last: when that was, and how many events they are behind or ahead, is said.
        404: it has published none yet, or the file is damaged. 400: there is no such table."""
        lake = office.settings.pipeline.lake_folder(office.home.lake)
        found = await office.work(
            lambda: Insights(lake / FILE).table(
                table,
                since=first.isoformat() if first is not None else None,
                until=to.isoformat() if to is not None else None,
                agent=agent,
                limit=limit,
            )
        )
        head = await office.read(lambda reader: reader.head())
        return {
            "table": table,
            "columns": list(found.columns),
            "rows": [dict(zip(found.columns, row, strict=True)) for row in found.rows],
            "more": found.more,
            "seq": found.stamp.seq,
            "beginsAt": found.stamp.begins,
            "builtAt": found.stamp.built_at,
            "behind": found.stamp.behind(head),
            "ahead": found.stamp.ahead(head),
        }

    return router


async def _settings(office: Office) -> dict[str, Any]:
    def look() -> dict[str, Any]:
        known = known_secrets(office.home)
        # none belongs there; one that is there all the same does not leave
        shown: dict[str, Any] = mask_texts(office.settings.model_dump(mode="json"), known)
        names = sorted(name for name in load_secrets(office.home) if name != TOKEN)
        return {**shown, "version": settings_version(office.home), "secrets": {name: {"set": True} for name in names}}

    host = await office.act("status")
    try:
        found = await office.work(look)
    except SettingsError as error:
        # nothing that the client could have asked otherwise
        raise HTTPException(503, mask(str(error), known_secrets(office.home))) from None
    return {**found, "nextStart": host["settings"]["nextStart"]}


def _storable(given: dict[str, Any]) -> None:
    """Half a surrogate pair is valid in JSON, but nothing that could be written."""
    try:
        text = json.dumps(given, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise BadInput("The settings are not valid Unicode text.") from None
