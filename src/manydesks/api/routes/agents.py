"""Agents: who works here."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from manydesks.api import workspaces
from manydesks.api.office import Office
from manydesks.api.shapes.base import NOTHING, After, AgentId, Limit, Nothing, errors
from manydesks.api.shapes.people import (
    Agent,
    AgentChanged,
    AgentGiven,
    Changed,
    Memory,
    Prompt,
    PromptGiven,
    Reset,
    Said,
    Skill,
    check_needed,
)
from manydesks.api.shapes.views import Pause
from manydesks.domain.errors import BadInput, UnknownAgent, WrongState
from manydesks.store.directory import unknown_agent
from manydesks.store.reader import Reader
from manydesks.store.versions import AGENT, version_of
from manydesks.store.versions import check as check_version

#: of a card, what an edit takes as it is
PLAIN = ("name", "provider")
#: what a new one cannot do without
NEEDED = ("name", "provider", "model")


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["agents"])

    @router.get("/api/agents", response_model=dict[str, Agent], summary="Who works here, by id")
    async def everybody() -> dict[str, Any]:
        return {row["id"]: _placed(office, row) for row in await office.read(cards)}

    @router.get("/api/agents/{id}", response_model=Agent, responses=errors(404), summary="One agent")
    async def one(id: AgentId) -> dict[str, Any]:
        return _placed(office, await office.read(lambda reader: card(reader, id)))

    @router.put(
        "/api/agents/{id}",
        response_model=AgentChanged,
        responses=errors(409, 413, 415),
        summary="Add or change an agent",
    )
    async def put(id: AgentId, given: AgentGiven) -> dict[str, Any]:
        """A new one needs `name`, `provider` and `model`. One that is there is changed in what is given; what is not
        given stays as it is, and `null` is the default again. All of it, or nothing."""
        if given.workspace not in (None, f"workspaces/{id}"):
            raise BadInput("'workspace' cannot be changed; an agent's folder has its place in the home.")
        if given.id not in (None, id):
            raise BadInput(f"'id' cannot be changed; the address names '{id}'.")
        text = given.system_prompt
        async with office.writing:
            if text is not None:
                await office.work(lambda: workspaces.check_prompt(office.home, id, text))
            try:
                notices = await _put(office, id, given)
            except UnknownAgent as error:
                # somebody whom it may reach: a field of the body, not what the address names
                raise BadInput(str(error)) from None
            if text is not None:
                notices = await _write_prompt(office, id, text, None)
        fresh = _placed(office, await office.read(lambda reader: card(reader, id)))
        notices = [*notices, *_elsewhere(given, fresh)]
        return {"ok": True, "agent": fresh, "version": fresh["version"], "notices": notices}

    @router.delete(
        "/api/agents/{id}", response_model=Changed, responses=errors(404, 409, 413, 415), summary="Remove an agent"
    )
    async def remove(id: AgentId) -> dict[str, Any]:
        """Its workspace and history stay, and no team has it any more. Refused while it has work or leads a team."""
        try:
            done = await office.act("agent_remove", id=id)
        except UnknownAgent:
            raise
        except BadInput as error:
            raise WrongState(str(error)) from None  # nothing is wrong with what was asked, only with the moment
        return {"ok": True, "notices": done.get("notices", [])}

    @router.post(
        "/api/agents/{id}/pause", response_model=Pause, responses=errors(404, 413, 415), summary="Pause an agent"
    )
    async def pause(id: AgentId, given: Nothing = NOTHING) -> dict[str, Any]:
        """It begins no more runs; what runs goes on."""
        return {"ok": True, **await office.act("pause", id=id)}

    @router.post(
        "/api/agents/{id}/resume", response_model=Pause, responses=errors(404, 409, 413, 415), summary="Resume an agent"
    )
    async def resume(id: AgentId, given: Nothing = NOTHING) -> dict[str, Any]:
        return {"ok": True, **await office.act("resume", id=id)}

    @router.post(
        "/api/agents/{id}/reset", response_model=Reset, responses=errors(404, 409, 413, 415), summary="Begin anew"
    )
    async def reset(id: AgentId, given: Nothing = NOTHING) -> dict[str, Any]:
        """It forgets its conversations; what waits for it stays."""
        return {"ok": True, **await office.act("agent_reset", id=id)}

    @router.get("/api/agents/{id}/messages", response_model=list[Said], responses=errors(404), summary="What was said")
    async def messages(id: AgentId, since_id: After = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        """To it and by it: the last of it above a number, oldest first."""

        def look(reader: Reader) -> list[dict[str, Any]]:
            card(reader, id)
            return [
                {
                    **row,
                    "agent_id": id,
                    "message_id": row["messageId"],
                    "content": row["message"],
                    "created_at": row["createdAt"],
                }
                for row in reader.agent_history(id, after=since_id, limit=limit)
            ]

        return await office.read(look)

    @router.get("/api/agents/{id}/system-prompt", response_model=Prompt, responses=errors(404), summary="Its manual")
    async def prompt(id: AgentId) -> dict[str, Any]:
        """`AGENTS.md` in its workspace; the office keeps the part between its marks up to date."""
        await office.read(lambda reader: card(reader, id))
        return await office.work(lambda: workspaces.read_prompt(office.home, id))

    @router.put(
        "/api/agents/{id}/system-prompt",
        response_model=Prompt,
        responses=errors(404, 409, 413, 415),
        summary="Write its manual",
    )
    async def write_prompt(id: AgentId, given: PromptGiven) -> dict[str, Any]:
        await office.read(lambda reader: card(reader, id))
        async with office.writing:
            await _write_prompt(office, id, given.content, given.version)
        return await office.work(lambda: workspaces.read_prompt(office.home, id))

    @router.get("/api/agents/{id}/heartbeat", response_model=Prompt, responses=errors(404), summary="Its heartbeat")
    async def heartbeat(id: AgentId) -> dict[str, Any]:
        """`HEARTBEAT.md` in its workspace: what it looks after by itself."""
        await office.read(lambda reader: card(reader, id))
        return await office.work(lambda: workspaces.read_heartbeat(office.home, id))

    @router.put(
        "/api/agents/{id}/heartbeat",
        response_model=Prompt,
        responses=errors(404, 409, 413, 415),
        summary="Write its heartbeat",
    )
    async def write_heartbeat(id: AgentId, given: PromptGiven) -> dict[str, Any]:
        await office.read(lambda reader: card(reader, id))
        async with office.writing:
            await office.work(lambda: workspaces.write_heartbeat(office.home, id, given.content, given.version))
        await office.act("audit")
        return await office.work(lambda: workspaces.read_heartbeat(office.home, id))

    @router.get(
        "/api/agents/{id}/memory",
        response_model=Memory,
        responses=errors(404),
        summary="What it wrote down",
    )
    async def memory(id: AgentId) -> dict[str, Any]:
        """The files in `memory/` of its workspace."""
        await office.read(lambda reader: card(reader, id))
        return await office.work(lambda: workspaces.memory(office.home, id))

    @router.get(
        "/api/agents/{id}/skills", response_model=list[Skill], responses=errors(404), summary="What it has learned"
    )
    async def skills(id: AgentId) -> list[dict[str, Any]]:
        """The folders in `skills/` of its workspace."""
        await office.read(lambda reader: card(reader, id))
        return await office.work(lambda: workspaces.skills(office.home, id))

    @router.post("/api/pause", response_model=Pause, responses=errors(413, 415), summary="Pause the office")
    async def pause_office(given: Nothing = NOTHING) -> dict[str, Any]:
        """Nothing begins; what runs goes on."""
        return {"ok": True, **await office.act("pause_office")}

    @router.post("/api/resume", response_model=Pause, responses=errors(413, 415), summary="Resume the office")
    async def resume_office(given: Nothing = NOTHING) -> dict[str, Any]:
        return {"ok": True, **await office.act("resume_office")}

    return router


def cards(reader: Reader) -> list[dict[str, Any]]:
    return [{**row, "version": version_of(row, AGENT)} for row in reader.agents()]


def card(reader: Reader, id: str) -> dict[str, Any]:
    """Raises `UnknownAgent`."""
    found = {row["id"]: row for row in cards(reader)}
    if id not in found:
        raise unknown_agent(id, found)
    return found[id]


def _placed(office: Office, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "working_directory": str(office.home.workspace(row["id"]))}


def _elsewhere(given: AgentGiven, agent: dict[str, Any]) -> list[str]:
    """Clients that let people choose an agent's folder are told where it is."""
    if given.working_directory in (None, "", agent["workspace"], agent["working_directory"]):
        return []
    return [f"The folder of '{agent['id']}' has its place in the home: {agent['working_directory']}."]


async def _write_prompt(office: Office, id: str, text: str, version: str | None) -> list[str]:
    """What the office says in it is put back, and the ledger has it. For whoever holds `office.writing`."""
    await office.work(lambda: workspaces.write_prompt(office.home, id, text, version))
    done = await office.act("manuals")
    await office.act("audit")
    return list(done["notices"])


async def _put(office: Office, id: str, given: AgentGiven) -> list[str]:
    known = {row["id"]: row for row in await office.read(cards)}
    if id not in known:
        try:
            return await _added(office, id, given)
        except BadInput:
            # somebody at a terminal may have added it in this moment
            known = {row["id"]: row for row in await office.read(cards)}
            if id not in known:
                raise
    return await _edited(office, known[id], given)


async def _added(office: Office, id: str, given: AgentGiven) -> list[str]:
    if given.version is not None:
        raise WrongState(f"There is no agent '{id}', so it is not as you read it; without a version it is added.")
    check_needed("agent", given, NEEDED)
    done = await office.act(
        "agent_add",
        id=id,
        name=given.name,
        provider=given.provider,
        model=given.model or None,
        sandbox=given.sandbox or None,
        options=given.options,
        concurrency=given.concurrency or 1,
        reaches=given.reaches or [],
        budget=given.budget.spelled() if given.budget is not None else None,
    )
    return list(done.get("notices", ()))


async def _edited(office: Office, before: dict[str, Any], given: AgentGiven) -> list[str]:
    sent = given.model_fields_set
    changes: dict[str, Any] = {key: getattr(given, key) for key in PLAIN if key in sent}
    # as the act has them, what is empty is the default again
    changes |= {key: getattr(given, key) or "" for key in ("model", "sandbox") if key in sent}
    if "concurrency" in sent:
        changes["concurrency"] = given.concurrency or 1
    if "reaches" in sent:
        changes["reaches"] = given.reaches or []
    if "budget" in sent:
        changes["budget"] = given.budget.spelled() if given.budget is not None else ""
    if "options" in sent:
        options = given.options or {}
        changes["set_options"] = options
        if gone := [key for key in before["options"] if key not in options]:
            changes["unset_options"] = gone
    if not changes:
        check_version(before, AGENT, given.version, f"The agent '{before['id']}'")
        return []
    done = await office.act("agent_edit", id=before["id"], changes=changes, version=given.version)
    return list(done.get("notices", ()))
