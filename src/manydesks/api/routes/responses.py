"""Responses: fetched and acknowledged by clients, sent again and given up by people, said by themselves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from manydesks.api.files import kept
from manydesks.api.office import Office
from manydesks.api.routes.messages import check_size
from manydesks.api.shapes.base import AGENT, MOST, NOTHING, After, Before, Limit, Nothing, Number, Ok, errors
from manydesks.api.shapes.responses import OneResponse, Response, ResponseGiven, Said
from manydesks.domain.errors import BadInput, UnknownAgent, UnknownResponse
from manydesks.domain.states import ResponseState

Channel = Annotated[str, Query(max_length=32, pattern=AGENT)]
MaybeChannel = Annotated[str | None, Query(max_length=32, pattern=AGENT)]

Status = Annotated[
    Literal["pending", "sending", "held", "unsure", "acked", "withdrawn", "dead", "expired"] | None,
    Query(description="Only these."),
]


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["responses"])

    @router.get("/api/responses", response_model=list[Response], summary="The newest responses")
    async def newest(
        channel: MaybeChannel = None, status: Status = None, before: Before = MOST, limit: Limit = 100
    ) -> list[dict[str, Any]]:
        state = ResponseState[status.upper()] if status is not None else None
        found = await office.read(
            lambda reader: reader.newest_responses(channel=channel, state=state, before=before, limit=limit)
        )
        return [_shown(office, row) for row in found]

    @router.get("/api/responses/pending", response_model=list[Response], summary="What waits for a client")
    async def pending(channel: Channel, after: After = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        """Oldest first. Each comes again, to whoever asks, until it is acknowledged."""
        found = await office.act("responses_pending", channel=channel, after=after, limit=limit)
        return [_shown(office, row) for row in found["responses"]]

    @router.get(
        "/api/responses/{id:int}", response_model=OneResponse, responses=errors(404), summary="One, and how it went"
    )
    async def one(id: Number) -> dict[str, Any]:
        found = await office.read(lambda reader: reader.response(id))
        if found is None:
            raise UnknownResponse(response=id)
        return _shown(office, found)

    @router.post("/api/responses", response_model=Said, responses=errors(413, 415), summary="Say something unasked")
    async def say(given: ResponseGiven, request: Request) -> dict[str, Any]:
        check_size(office, given.message)
        try:
            done = await office.act(
                "response_say",
                channel=given.channel,
                sender=given.sender,
                sender_id=given.sender_id,
                text=given.message,
                agent=given.agent,
                files=await kept(office, given.files, request),
            )
        except UnknownAgent as error:
            raise BadInput(str(error)) from None
        return {"ok": True, **done}

    @router.post(
        "/api/responses/{id:int}/ack",
        response_model=Ok,
        responses=errors(404, 409, 413, 415),
        summary="A client has it",
    )
    async def ack(id: Number, given: Nothing = NOTHING) -> dict[str, Any]:
        await office.act("response_ack", id=id)
        return {"ok": True}

    @router.post(
        "/api/responses/{id:int}/resend",
        response_model=Ok,
        responses=errors(404, 409, 413, 415),
        summary="Send it again",
    )
    async def resend(id: Number, given: Nothing = NOTHING) -> dict[str, Any]:
        """A dead, unsure or expired one."""
        await office.act("response_resend", id=id)
        return {"ok": True}

    @router.delete(
        "/api/responses/{id:int}", response_model=Ok, responses=errors(404, 409, 413, 415), summary="Give it up"
    )
    async def drop(id: Number) -> dict[str, Any]:
        await office.act("response_drop", id=id)
        return {"ok": True}

    return router


def _shown(office: Office, row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "message": row["text"],
        "originalMessage": row["originalText"],
        "timestamp": row["createdAt"],
        "files": [str(office.home.path / file["path"]) for file in row["files"]],
        "attachments": row["files"],
    }
