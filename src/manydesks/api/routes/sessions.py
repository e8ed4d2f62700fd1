"""Sessions: agents' threads of work; what was used; what agents ask people."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from manydesks.api.office import Office
from manydesks.api.shapes.base import NOTHING, After, Day, Id, Limit, Nothing, OfAgent, Ok, errors
from manydesks.api.shapes.people import Reset
from manydesks.api.shapes.views import AnswerGiven, OneSession, Question, Session, Usage
from manydesks.domain.budget import day_of
from manydesks.domain.errors import UnknownSession, WrongState
from manydesks.office.budget import budget_of
from manydesks.store.reader import Reader


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["sessions"])

    @router.get("/api/sessions", response_model=list[Session], summary="Threads of work, oldest first")
    async def listed(agent: OfAgent = None, after: After = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        return await office.read(lambda reader: reader.sessions_page(agent=agent, after=after, limit=limit))

    @router.get(
        "/api/sessions/{id}", response_model=OneSession, responses=errors(404), summary="One, with its last runs"
    )
    async def one(id: Id) -> dict[str, Any]:
        return await office.read(lambda reader: session(reader, id))

    @router.post(
        "/api/sessions/{id}/reset", response_model=Reset, responses=errors(404, 409, 413, 415), summary="Begin one anew"
    )
    async def reset(id: Id, given: Nothing = NOTHING) -> dict[str, Any]:
        """The next generation takes over what waits. Refused while the agent is at work."""
        found = await office.read(lambda reader: session(reader, id))
        if found["status"] != "active":
            raise WrongState(what=f"The session '{id}'", status=found["status"], allowed="an active one", act="reset")
        # an agent has one session, and that is this one
        return {"ok": True, **await office.act("agent_reset", id=found["agent"])}

    @router.get("/api/usage", response_model=Usage, tags=["usage"], summary="What agents have used, and what is left")
    async def usage(
        by: Literal["agent", "model", "day"] = "agent",
        since: Annotated[Day | None, Query(description="Runs that began on this day or later.")] = None,
    ) -> dict[str, Any]:
        budget = budget_of(office.settings)
        today = day_of(office.premises.clock.now(), budget.time_zone)

        def look(reader: Reader) -> dict[str, Any]:
            found = reader.usage(by=by, since=since.isoformat() if since is not None else None)
            return {**found, "today": today, "timeZone": budget.time_zone, "caps": reader.caps(budget, today)}

        return await office.read(look)

    @router.get("/api/questions", response_model=list[Question], tags=["questions"], summary="What agents ask people")
    async def questions(limit: Limit = 100) -> list[dict[str, Any]]:
        found = await office.read(lambda reader: reader.questions(limit))
        return [{**row, "id": row["questionId"]} for row in found]

    @router.post(
        "/api/questions/{id}",
        response_model=Ok,
        responses=errors(404, 409, 413, 415),
        tags=["questions"],
        summary="Answer a question",
    )
    async def answer(id: Id, given: AnswerGiven) -> dict[str, Any]:
        """Once: what was answered, or has expired, is 409."""
        await office.act("answer", id=id, answer=given.option, by=given.by, own_words=given.own_words)
        return {"ok": True}

    return router


def session(reader: Reader, id: str) -> dict[str, Any]:
    """Raises `UnknownSession`."""
    found = reader.session(id)
    if found is None:
        raise UnknownSession(session=id)
    return found
