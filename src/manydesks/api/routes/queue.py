"""The queue: how much there is, and what a person deals with by hand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from manydesks.api.answer import answered
from manydesks.api.office import Office
from manydesks.api.routes.messages import check_size
from manydesks.api.shapes.base import NOTHING, After, Id, Limit, Nothing, OfAgent, Ok, errors
from manydesks.api.shapes.queue import (
    AgentQueue,
    CancelGiven,
    Cancelled,
    Dead,
    Held,
    Listed,
    Processing,
    Pruned,
    QueueStatus,
    RetryGiven,
)
from manydesks.domain.errors import BadInput, UnknownAgent, WrongState
from manydesks.domain.states import MessageState

Status = Annotated[
    Literal["pending", "processing", "held", "completed", "cancelled", "dead"] | None, Query(description="Only these.")
]
#: with its own text
AS_IT_IS = RetryGiven()


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["queue"])

    @router.get("/api/queue/status", response_model=QueueStatus, summary="Counts by state")
    async def status() -> Response:
        """From counters: as quick with a million messages as with none."""
        return answered(await office.read(lambda reader: reader.queue_status()))

    @router.get("/api/queue/agents", response_model=list[AgentQueue], summary="What waits for each agent")
    async def agents() -> list[dict[str, Any]]:
        return await office.read(lambda reader: reader.queue_agents())

    @router.get("/api/queue/messages", response_model=list[Listed], summary="Messages, oldest first")
    async def messages(
        agent: OfAgent = None, status: Status = None, after: After = 0, limit: Limit = 100
    ) -> list[dict[str, Any]]:
        state = MessageState[status.upper()] if status is not None else None
        found = await office.read(lambda reader: reader.messages(agent=agent, state=state, after=after, limit=limit))
        return [{**row, "message": row["text"]} for row in found]

    @router.post(
        "/api/queue/cancel",
        response_model=Cancelled,
        responses=errors(413, 415),
        summary="Cancel everything, or everything of an agent",
    )
    async def cancel_all(given: CancelGiven) -> dict[str, Any]:
        """What waits, is held or runs shall not go on; a step of it: while `more`, ask again."""
        try:
            return {"ok": True, **await office.act("cancel", agent=given.agent, everything=given.agent is None)}
        except UnknownAgent as error:
            raise BadInput(str(error)) from None  # a field of the body, not what the address names

    @router.post("/api/queue/prune", response_model=Pruned, responses=errors(413, 415), summary="Let go what is old")
    async def prune(given: Nothing = NOTHING) -> dict[str, Any]:
        """What retention would do by and by; a step of it: while `more`, ask again."""
        return {"ok": True, **await office.act("prune")}

    @router.get("/api/queue/processing", response_model=list[Processing], summary="What is being worked on")
    async def processing(agent: OfAgent = None, after: After = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        found = await office.read(lambda reader: reader.processing_page(agent=agent, after=after, limit=limit))
        now, seated = office.premises.clock.now(), office.premises.at_work()
        return [
            {
                **row,
                "runMs": None if row["startedAt"] is None else max(0, now - row["startedAt"]),
                "alive": row["sessionId"] in seated,
            }
            for row in found
        ]

    @router.post(
        "/api/queue/processing/{id}/kill", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Stop a run"
    )
    async def kill(id: Id, given: Nothing = NOTHING) -> dict[str, Any]:
        """By the number or the id of its message. The whole process tree ends; the message is cancelled."""
        await office.act("cancel", id=await _named(office, id, MessageState.PROCESSING, "stopped"))
        return {"ok": True}

    @router.get("/api/queue/held", response_model=list[Held], summary="Messages that wait for somebody or something")
    async def held(agent: OfAgent = None, after: After = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        return await office.read(lambda reader: reader.held_page(agent=agent, after=after, limit=limit))

    @router.post(
        "/api/queue/held/{id}/release", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Let one go on"
    )
    async def release(id: Id, given: Nothing = NOTHING) -> dict[str, Any]:
        await office.act("release", id=await _named(office, id, MessageState.HELD, "released"))
        return {"ok": True}

    @router.delete(
        "/api/queue/held/{id}", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Give one up"
    )
    async def give_up(id: Id) -> dict[str, Any]:
        """It ends as cancelled."""
        await office.act("drop", id=await _named(office, id, MessageState.HELD, "given up"))
        return {"ok": True}

    @router.get("/api/queue/dead", response_model=list[Dead], summary="Dead letters")
    async def dead(agent: OfAgent = None, after: After = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        found = await office.read(lambda reader: reader.dead_page(agent=agent, after=after, limit=limit))
        return [
            {
                "id": row["id"],
                "data": row,
                "traceId": row["traceId"],
                "failedReason": row["reason"],
                "attemptsMade": row["attempts"],
                "timestamp": row["updatedAt"],
            }
            for row in found
        ]

    @router.post(
        "/api/queue/dead/{id}/retry", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Try one again"
    )
    async def retry(id: Id, given: RetryGiven = AS_IT_IS) -> dict[str, Any]:
        """The same agent, attempts anew; with another text, if one is given."""
        text = given.message
        if text is not None:
            check_size(office, text)
        await office.act("retry", id=await _named(office, id, MessageState.DEAD, "retried"), text=text)
        return {"ok": True}

    @router.delete("/api/queue/dead/{id}", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Drop one")
    async def drop(id: Id) -> dict[str, Any]:
        await office.act("drop", id=await _named(office, id, MessageState.DEAD, "dropped"))
        return {"ok": True}

    return router


async def _named(office: Office, id: str, state: MessageState, act: str) -> str:
    """The message that is meant. Raises `UnknownMessage`, or `WrongState` if it is of another state."""
    found = await office.read(lambda reader: reader.find_message(id, state))
    if found is None:
        word = state.name.lower()
        raise WrongState(f"The message '{id}' is not {word}; only a {word} one can be {act} here.")
    return found
